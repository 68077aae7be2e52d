//! Several locks as one.

use std::time::Duration;

use zklock_core::lock::{AnyGuard, MultiLock};

use super::polls::{Cut, cut_off, cut_short};
use super::task::Task;
use crate::rules;

/// By how much each member may be late, one after the other: see "Found, and not mended".
const LATE: Duration = Duration::from_millis(60);

impl Task {
    /// Several locks as one were refused, or the call was dropped: none of them is held.
    fn check_none(&self, lock: usize) {
        let plan = &self.crew.locks[lock];
        // A lock that lingers is kept, and nobody has it.
        let ledger = &self.crew.ledger;
        let used = ledger.is_used_by_others(&self.name, lock, &self.process, 0);
        if plan.lingers || used || !ledger.is_alone(lock, &self.process) {
            return;
        }
        let here = self.session.local_contenders();
        if let Some(one) = here.iter().find(|one| &*one.lock == plan.name) {
            let what = format!("{}: {one:?} is left of several", self.name);
            self.crew.ledger.fail(rules::TOGETHER, what);
        }
    }

    /// Asks for all locks at once, each process in an order of its own.
    pub(super) async fn take_all(&self) {
        let world = self.process.world();
        let wait = Some((Duration::from_millis([50, 2_000][self.choose(2) as usize]), 1));
        let mut members = Vec::new();
        let locks = self.crew.locks.iter().enumerate();
        for (lock, plan) in locks.filter(|(_, plan)| !plan.confused) {
            let Ok(asked) = plan.lock(world, &self.session, wait) else { return };
            members.push((lock, plan.share(&asked), asked));
        }
        if members.is_empty() {
            return;
        }
        let first = self.process.id().0 as usize % members.len();
        members.rotate_left(first);
        let locks = members.iter().map(|(_, _, asked)| asked.clone());
        let all = match MultiLock::new(locks) {
            Ok(all) => all,
            Err(error) => return self.crew.ledger.fail(rules::ERROR, format!("{error:#}")),
        };
        self.say(|| "wants all of them".to_owned());
        let ask = |lock: usize| self.crew.ledger.may_hold(lock, &self.process);
        let asking: Vec<_> = members.iter().map(|(lock, ..)| ask(*lock)).collect();
        let cut = Cut::of(if self.choose(3) == 1 { 1 + self.choose(18) } else { 0 });
        // For as long as it takes, or not.
        let often = self.crew.profile.rare || self.crew.profile.multi > 80;
        let patient = often && self.choose(2) == 1;
        let acquiring =
            async { if patient { all.acquire().await } else { all.acquire_tries().await } };
        let (start, pauses) = (self.process.nanos(), self.process.pauses());
        let answer = cut_short(world, acquiring, cut).await;
        if let (Some((wait, tries)), false) = (wait, patient) {
            let many = u32::try_from(members.len()).unwrap_or(u32::MAX);
            self.check_deadline((start, pauses), wait * tries + LATE * many);
        }
        match answer {
            Some(Ok(guard)) => {
                let taken = |member: &AnyGuard| {
                    let mut shares = members.iter();
                    let of =
                        shares.find(|(_, _, asked)| asked.name().as_str() == member.lock_name())?;
                    self.crew.ledger.is_older(of.0);
                    let holding = self.note(of.0, of.1, member.view(), None);
                    self.crew.ledger.is_older(of.0);
                    Some(holding)
                };
                let holdings: Vec<_> = guard.members().iter().map(taken).collect();
                drop(asking);
                if !guard.is_valid() && self.crew.ledger.calm_for(self.crew.timeout) {
                    let what = format!("{}: one of several was lost", self.name);
                    self.crew.ledger.fail(rules::VALID, what);
                }
                self.sleep(self.short()).await;
                self.say(|| "lets go of all".to_owned());
                drop(holdings);
                drop(cut_off(world, guard.release(), self.cut(8)).await);
            }
            answer => {
                drop(asking);
                for (lock, ..) in &members {
                    self.check_none(*lock);
                }
                match answer {
                    Some(Err(error)) => self.judge(&error, Some(if patient { 0 } else { 4 })),
                    _ => self.say(|| "is dropped".to_owned()),
                }
            }
        }
    }
}
