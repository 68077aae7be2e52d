//! What is done at the end of a scope, however it ends.

/// Calls a function when it is dropped: at the end of its scope, or before that, if the future that it is
/// part of is dropped.
#[must_use = "what is dropped at once is called at once"]
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    pub(crate) fn new(call: F) -> Self {
        OnDrop(Some(call))
    }

    /// Calls nothing.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}
