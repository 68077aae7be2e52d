//! Silences that end without a cut.

use zklock_core::coordinator::link::Link;

use super::bed::SLOTS;
use super::play::{Player, until};
use super::script::{Ask, Deaf};

impl Player<'_> {
    /// A session asks while nothing gets through, and another one does something before it does again.
    pub(super) async fn pause(
        &mut self,
        number: usize,
        slot: usize,
        asks: &[Ask],
        deed: &[Ask],
        deaf: Deaf,
    ) {
        let other = (slot + 1) % SLOTS;
        self.up(other).await;
        // What the other one has just asked may fire a watch here.
        self.catch_up(slot).await;
        self.bed.pause(slot, deaf != Deaf::Client, deaf != Deaf::Server).await;
        if deaf == Deaf::Client {
            self.ask(slot, asks);
            self.applied(number, slot, other).await;
            // What the deed fires is right behind the answers.
            self.slots[slot].forgot = true;
        } else {
            // Whoever is served later may be behind.
            self.ask(slot, &[&[Ask::Sync][..], asks].concat());
        }
        self.ask(other, deed);
        self.answers(other).await;
        self.bed.resume(slot).await;
        self.answers(slot).await;
    }

    /// Nothing gets through for so long that the client gives its connection up, and not for so long that its
    /// session ends.
    pub(super) async fn silence(&mut self, slot: usize, deed: &[Ask]) {
        let other = (slot + 1) % SLOTS;
        self.up(other).await;
        self.up(slot).await;
        self.bed.pause(slot, true, true).await;
        self.ask(other, deed);
        self.answers(other).await;
        let session = self.slots[slot].session.clone();
        until(&session, |link| link != Link::Up).await;
        self.bed.resume(slot).await;
        until(&session, |link| link != Link::Down).await;
        self.report.line(format!("{slot}: {:?}", session.link()));
    }
}
