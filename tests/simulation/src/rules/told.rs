//! What observers are told, beside what callers did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use zklock_core::base::mode::Mode;
use zklock_core::base::token::FencingToken;
use zklock_core::observe::observer::{Event, Observer};

use super::ledger::Ledger;

/// How long the thread of an observer takes at most to deliver what it was given, by the clock of this machine.
const DELIVERED: Duration = Duration::from_secs(10);

/// What the observer of a session was told.
#[derive(Debug, Default)]
struct Heard {
    /// How many callers gave up.
    cancelled: u64,
    /// How often each grant was told, and how often its release.
    grants: BTreeMap<(Arc<str>, FencingToken), (u32, u32)>,
    /// The same of the permits of each semaphore, together: those that were split off are released by themselves.
    permits: BTreeMap<Arc<str>, (u32, u32)>,
    /// What was released more often than it was granted.
    twice: Option<String>,
    /// The nodes that were lost while they were held, by their czxids.
    lost: BTreeSet<u64>,
    /// Whether events are missing.
    missed: bool,
    /// Whether nothing more is told.
    over: bool,
}

/// What the observer of a session was told, when everything was.
#[derive(Debug, Default)]
pub struct Account(Mutex<Heard>, Condvar);

impl Account {
    /// The observer of a session.
    pub fn listener(self: &Arc<Self>) -> Arc<dyn Observer> {
        Arc::new(Listener(self.clone()))
    }

    fn hears(&self, event: &Event) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Cancelled { .. } => heard.cancelled += 1,
            Event::Acquired { mode: Mode::Permit, lock, .. } => {
                heard.permits.entry(lock.clone()).or_default().0 += 1;
            }
            Event::Released { mode: Mode::Permit, lock, .. } => {
                heard.permits.entry(lock.clone()).or_default().1 += 1;
            }
            Event::Acquired { lock, token, .. } => {
                heard.grants.entry((lock.clone(), *token)).or_default().0 += 1;
            }
            Event::Released { lock, token, .. } => {
                let (granted, released) = heard.grants.entry((lock.clone(), *token)).or_default();
                *released += 1;
                if released > granted {
                    heard.twice = Some(format!("{lock} with token {token}"));
                }
            }
            Event::Lost { czxid, token: Some(_), .. } => {
                heard.lost.insert(*czxid);
            }
            Event::Dropped { .. } => heard.missed = true,
            _ => {}
        }
    }
}

/// Notes what it is told, on a thread of its own.
#[derive(Debug)]
struct Listener(Arc<Account>);

impl Observer for Listener {
    fn event(&self, event: &Event) {
        self.0.hears(event);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.0.1.notify_all();
    }
}

impl Ledger {
    /// When a session is closed, looks at what its observer was told. Callers have dropped so many acquires, if all of them
    /// were counted, of which `all` had begun. A process that has crashed tells nothing more.
    pub fn check_told(&self, account: &Account, dropped: Option<u64>, all: bool, crashed: bool) {
        let heard = account.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = account.1.wait_timeout_while(heard, DELIVERED, |heard| !heard.over);
        let (heard, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        if heard.missed || !heard.over {
            return;
        }
        if let Some(twice) = &heard.twice {
            self.fail(super::RELEASED_ONCE, format!("{twice} is released once more"));
        }
        let mut grants = heard.grants.iter().filter(|_| !crashed);
        if let Some(((lock, token), (granted, released))) =
            grants.find(|(_, (granted, released))| granted > released)
        {
            let what = format!("{lock} with token {token}: {granted} grants, {released} releases");
            self.fail(super::RELEASED_ONCE, what);
        }
        let mut permits = heard.permits.iter().filter(|_| !crashed);
        if let Some((lock, (granted, released))) =
            permits.find(|(_, (granted, released))| granted > released)
        {
            let what = format!("permits of {lock}: {granted} grants, {released} releases");
            self.fail(super::RELEASED_ONCE, what);
        }
        let cancelled = heard.cancelled;
        let is_wrong = |dropped: &u64| cancelled > *dropped || all && cancelled < *dropped;
        if let Some(dropped) = dropped.filter(is_wrong) {
            let what = format!("{cancelled} were told to be, and {dropped} calls were dropped");
            self.fail(super::CANCELLED, what);
        }
    }

    /// When all sessions are closed, looks whether their observers were told of each loss that the log tells.
    pub fn check_losses_told<'a>(&self, accounts: impl Iterator<Item = &'a Account>) {
        let mut lost = BTreeSet::new();
        for account in accounts {
            let heard = account.0.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.missed || !heard.over {
                return;
            }
            lost.extend(&heard.lost);
        }
        let untold = self.lock().told_lost.difference(&lost).next().copied();
        if let Some(czxid) = untold {
            let what =
                format!("the log tells of the loss of {czxid:x}, and observers hear nothing");
            self.fail(super::LOSSES_TOLD, what);
        }
    }
}
