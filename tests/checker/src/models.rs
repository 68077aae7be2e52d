//! Locks without concurrency, as the independent checker knows them.

use porcupine_rs::Model;

use crate::history::{Mode, Token};

/// Something that happened to a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A grant.
    Enter(Entry),
    /// The end of a hold.
    Leave(Entry),
    /// A writer that became a reader.
    StepDown(Entry, Entry),
    /// A fenced write.
    Write(Token),
}

/// What a model may know of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(crate) id: usize,
    /// The outermost hold that it is nested in, or itself.
    pub(crate) root: usize,
    pub(crate) mode: Mode,
    pub(crate) permits: (u32, u32),
    /// None of a peer.
    pub(crate) token: Option<Token>,
}

impl Entry {
    fn is_after(&self, token: Token) -> bool {
        self.token.is_none_or(|own| own > token)
    }
}

macro_rules! model {
    ($(#[$doc:meta])* $name:ident, $state:ty, $init:expr, $step:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name;

        impl Model for $name {
            type State = $state;
            type Op = Step;
            type Metadata = ();

            fn init() -> $state {
                $init
            }

            fn step(state: &$state, op: &Step) -> (bool, $state) {
                let step: fn(&$state, &Step) -> Option<$state> = $step;
                step(state, op).map_or_else(|| (false, state.clone()), |next| (true, next))
            }
        }
    };
}

model!(
    /// One holder.
    Alone,
    Option<usize>,
    None,
    |holder, step| match step {
        Step::Enter(one) => holder.is_none().then_some(Some(one.id)),
        Step::Leave(one) => (*holder == Some(one.id)).then_some(None),
        _ => None,
    }
);

model!(
    /// One chain of holders, each in the scope of the one before.
    Reentrant,
    Option<(usize, u32)>,
    None,
    |holder, step| match (step, holder) {
        (Step::Enter(one), None) => Some(Some((one.root, 1))),
        (Step::Enter(one), Some((root, depth))) if one.root == *root => {
            Some(Some((*root, depth + 1)))
        }
        (Step::Leave(one), Some((root, depth))) if one.root == *root => {
            Some((*depth > 1).then(|| (*root, depth - 1)))
        }
        _ => None,
    }
);

model!(
    /// One holder, each with a greater token than all before.
    Fenced,
    (Option<usize>, Token),
    (None, (0, 0)),
    |(holder, last), step| match step {
        Step::Enter(one) => (holder.is_none() && one.is_after(*last))
            .then_some((Some(one.id), one.token.unwrap_or(*last))),
        Step::Leave(one) => (*holder == Some(one.id)).then_some((None, *last)),
        _ => None,
    }
);

model!(
    /// A resource that refuses smaller tokens than it has seen.
    Writes,
    Token,
    (0, 0),
    |last, step| match step {
        Step::Write(token) => (token >= last).then_some(*token),
        _ => None,
    }
);

model!(
    /// One writer, or readers; a writer's token is greater than all before, a reader's than those
    /// of the writers before.
    ReadWrite,
    (Option<usize>, Vec<usize>, Token, Token),
    (None, Vec::new(), (0, 0), (0, 0)),
    |(writer, readers, alone, all), step| {
        let without = |id| readers.iter().copied().filter(|other| *other != id).collect::<Vec<_>>();
        let with = |id| {
            let mut more = readers.clone();
            more.push(id);
            more.sort_unstable();
            more
        };
        match step {
            Step::Enter(one) if one.mode == Mode::Read => (writer.is_none()
                && one.is_after(*alone))
            .then(|| (None, with(one.id), *alone, (*all).max(one.token.unwrap_or(*all)))),
            Step::Enter(one) => (writer.is_none() && readers.is_empty() && one.is_after(*all))
                .then(|| {
                    let token = one.token.unwrap_or(*all);
                    (Some(one.id), Vec::new(), token, token)
                }),
            Step::Leave(one) if one.mode == Mode::Read => readers
                .contains(&one.id)
                .then(|| (*writer, without(one.id), *alone, *all)),
            Step::Leave(one) => {
                (*writer == Some(one.id)).then(|| (None, readers.clone(), *alone, *all))
            }
            Step::StepDown(was, is) => (*writer == Some(was.id) && is.token > was.token)
                .then(|| (None, with(is.id), *alone, (*all).max(is.token.unwrap_or(*all)))),
            Step::Write(_) => None,
        }
    }
);

model!(
    /// At most so many permits at once.
    Permits,
    Vec<(usize, u32)>,
    Vec::new(),
    |inside, step| match step {
        Step::Enter(one) => {
            let (permits, limit) = one.permits;
            let taken: u32 = inside.iter().map(|(_, permits)| permits).sum();
            (taken + permits <= limit).then(|| {
                let mut more = inside.clone();
                more.push((one.id, permits));
                more.sort_unstable();
                more
            })
        }
        Step::Leave(one) => inside
            .iter()
            .any(|(id, _)| *id == one.id)
            .then(|| inside.iter().copied().filter(|(id, _)| *id != one.id).collect()),
        _ => None,
    }
);
