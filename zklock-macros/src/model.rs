//! The plan: everything that is emitted, decided and free of mistakes.

use proc_macro2::{Span, TokenStream};
use syn::{Expr, Ident, Path, parse_quote};

use crate::{
    args::{self, Args, Settings},
    choice::OnBusy,
    errors::Errors,
    item::Function,
    lock_options::Setting,
    mentions::mentions,
    mode::Mode,
    name::Name,
    params::{self, Params},
    pattern::{self, Piece, Scope},
    recorded, shadow,
    shape::{self, Shape},
    unseen,
    value::Value,
};

/// A function with all that its guard needs.
pub(crate) struct Plan {
    pub(crate) function: Function,
    pub(crate) params: Params,
    pub(crate) shape: Shape,
    pub(crate) name: Name,
    pub(crate) settings: Settings,
    pub(crate) label: Option<Label>,
    pub(crate) failure: Failure,
    /// The parameters that the name or an option reads, each once.
    pub(crate) read: Vec<Ident>,
    /// The hidden module that generated code calls.
    pub(crate) private: Path,
}

/// What the lock is taken for.
pub(crate) enum Label {
    Pattern(Vec<Piece>),
    /// A string that is known only at run time.
    Expression(Expr),
}

/// What the function returns when its lock cannot be acquired.
pub(crate) struct Failure {
    pub(crate) busy: OnBusy,
    pub(crate) other: Other,
}

/// What the function returns for a failure other than a busy lock, or for any.
pub(crate) enum Other {
    /// The error that the return type makes of it.
    From,
    /// The error that a path or a closure makes of it.
    Mapped(Expr),
    /// What a path or a closure makes of it.
    Handler(Expr),
}

/// Reads options and function together; every mistake in either is in the error.
pub(crate) fn plan(args: TokenStream, item: TokenStream) -> syn::Result<Plan> {
    let mut errors = Errors::default();
    let args = args::parse(args, &mut errors);
    let function = errors.catch(syn::parse2(item));
    let plan = function.and_then(|function| build(args, function, &mut errors));
    errors.finish()?;
    // Nothing is missing without a mistake that says why.
    plan.ok_or_else(|| syn::Error::new(Span::call_site(), "zk_locked found nothing"))
}

const TWICE: &str = "this function has another #[zk_locked] already: the two would take their locks one \
    after the other, and a function that has them the other way round would wait for this one, which \
    waits for it; give one attribute several keys, `#[zk_locked(\"accounts\", key = from, key = to)]`, \
    or take locks of other names as one with `zklock::MultiLock`";

fn build(args: Args, function: Function, errors: &mut Errors) -> Option<Plan> {
    if function.is_guarded() {
        errors.push(syn::Error::new(Span::call_site(), TWICE));
        return None;
    }
    if let Some(constness) = &function.sig.constness {
        errors.push(syn::Error::new(
            constness.span,
            "a `const fn` cannot wait for a lock; remove `const` or #[zk_locked]",
        ));
    }
    let mut params = params::split(&function.sig);
    let shape = shape::of(&function, errors);
    match &shape {
        Shape::Tail(stmts) => params.taken_apart_in(stmts),
        Shape::Async | Shape::Sync => recorded::refuse(&function, errors),
        Shape::Unknown => {}
    }
    contradictions(&args, &shape, errors);
    let Args {
        name, keys, namespace, label, on_busy, on_error, map_err, mut settings, krate, ..
    } = args;
    let name = Name::of(namespace.as_ref(), &name?, keys, Scope::Params(&params), errors);
    let label = label.map(|label| match label {
        Value::Known(text) => Label::Pattern(pattern::parse(&text, Scope::Params(&params), errors)),
        Value::Expression(text) => Label::Expression(text),
    });
    if matches!(shape, Shape::Sync) {
        // It finishes in any case.
        settings.lock.remove("on_lost");
    }
    let other = match (on_error, map_err) {
        (Some(handler), _) => Other::Handler(handler),
        (None, Some(map)) => Other::Mapped(map),
        (None, None) => Other::From,
    };
    let failure = Failure { busy: on_busy.unwrap_or(OnBusy::Error), other };
    unseen::refuse(failure.handlers(), &params, errors);
    let read = read(&params, &name, &settings, label.as_ref());
    if let Shape::Tail(stmts) = &shape {
        shadow::refuse(stmts, &read, errors);
    }
    let krate = krate.unwrap_or_else(|| parse_quote!(::zklock));
    let private = parse_quote!(#krate::__private);
    Some(Plan { function, params, shape, name, settings, label, failure, read, private })
}

/// Refuses options that say the opposite of each other.
fn contradictions(args: &Args, shape: &Shape, errors: &mut Errors) {
    let Settings { mode, try_once, lock, driver, .. } = &args.settings;
    // What only an expression knows is found out by the call.
    let tries = matches!(try_once, Some(Value::Known(true)));
    let is_fair = matches!(lock.get("fair"), Some(Setting::Flag(Value::Known(true))));
    let lingers = lock.time("linger").is_some_and(|time| !time.is_zero());
    let shares = matches!(mode, Some(Mode::Semaphore(_)));
    let reads_or_writes = matches!(mode, Some(Mode::Read | Mode::Write));
    let has = |option| lock.get(option).is_some();
    let single = "a semaphore supports neither `lock_delay` nor `hold_at_least`, which are for a \
                  single holder; use a mutex";
    let is_shorter = match (lock.time("hold_at_most"), lock.time("hold_at_least")) {
        (Some(most), Some(least)) => most < least,
        _ => false,
    };
    let contradictions = [
        (
            tries && has("retries"),
            "retries",
            "`try_once` asks once without waiting; remove it or `retries`",
        ),
        (
            tries && lingers,
            "linger",
            "a lock with `linger` cannot be tried: its idle node looks held to tries in other \
             processes; remove `linger` or `try_once`",
        ),
        (
            is_fair && lingers,
            "linger",
            "a fair lock cannot linger: every waiter has its own node; choose one",
        ),
        (
            shares && lingers,
            "linger",
            "a semaphore cannot linger: its permits go to the next waiter; remove `linger`",
        ),
        (shares && has("lock_delay"), "lock_delay", single),
        (shares && has("hold_at_least"), "hold_at_least", single),
        (
            args.on_error.is_some() && args.map_err.is_some(),
            "map_err",
            "`on_error` makes the whole result from the error, and `map_err` only the function's \
             error; keep one of them",
        ),
        (
            shares && driver.is_some(),
            "driver",
            "`driver` does not choose the layout of a semaphore, which is the session's; remove \
             `driver`, or use `session.semaphore(…)?.with_driver(…)`",
        ),
        (is_shorter, "hold_at_most", "`hold_at_most` must not be shorter than `hold_at_least`"),
        (
            has("hold_at_least") && lingers,
            "hold_at_least",
            "a lock with `hold_at_least` cannot linger: a lingering lock is released as soon as \
             somebody waits; choose one",
        ),
        (
            has("hold_at_least") && reads_or_writes,
            "hold_at_least",
            "`hold_at_least` is only for mutexes, which have one holder; remove it, or use a mutex",
        ),
    ];
    for (is_there, option, why) in contradictions {
        if is_there {
            errors.push(syn::Error::new(args.place(option), why));
        }
    }
    if let (Some(Setting::Variant(_, "Cancel", place)), Shape::Sync) = (lock.get("on_lost"), shape)
    {
        let why = "a plain function cannot be stopped half way: it finishes, and its call fails with \
                   `Lost`; make it an `async fn` or remove `on_lost`";
        errors.push(syn::Error::new(*place, why));
    }
}

/// Lists the parameters that are read before the body takes them.
fn read(params: &Params, name: &Name, settings: &Settings, label: Option<&Label>) -> Vec<Ident> {
    let mut read: Vec<Ident> = Vec::new();
    let mut add = |root: &Ident| {
        if !read.contains(root) {
            read.push(root.clone());
        }
    };
    name.roots().chain(label.into_iter().flat_map(Label::roots)).for_each(&mut add);
    let text = label.and_then(Label::expression);
    let expressions: Vec<&Expr> =
        name.expressions().chain(settings.expressions()).chain(text).collect();
    params
        .bindings
        .iter()
        .chain(&params.receiver)
        .filter(|root| expressions.iter().any(|expr| mentions(*expr, root)))
        .for_each(add);
    read
}

impl Failure {
    fn handlers(&self) -> impl Iterator<Item = &Expr> {
        let busy = match &self.busy {
            OnBusy::Handler(handler) => Some(handler),
            OnBusy::Error | OnBusy::Skip => None,
        };
        let other = match &self.other {
            Other::Mapped(handler) | Other::Handler(handler) => Some(handler),
            Other::From => None,
        };
        busy.into_iter().chain(other)
    }
}

impl Label {
    /// The parameters that a pattern reads.
    fn roots(&self) -> impl Iterator<Item = &Ident> {
        let pieces = match self {
            Label::Pattern(pieces) => pieces.as_slice(),
            Label::Expression(_) => &[],
        };
        pieces.iter().filter_map(|piece| match piece {
            Piece::Value(place) => Some(place.root()),
            Piece::Text(_) => None,
        })
    }

    fn expression(&self) -> Option<&Expr> {
        match self {
            Label::Expression(text) => Some(text),
            Label::Pattern(_) => None,
        }
    }
}

impl Settings {
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let values = [
            self.mode.as_ref().and_then(Mode::expression),
            self.session.as_ref(),
            self.driver.as_ref(),
            self.options.as_ref(),
            self.try_once.as_ref().and_then(Value::expression),
            self.condition.as_ref(),
        ];
        values.into_iter().flatten().chain(self.lock.expressions())
    }
}
