//! What bodies did.

use std::sync::Mutex;

/// What a body did, in order.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Vec<String>>);

impl Journal {
    pub(crate) fn write(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn read(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A local of a body, which writes down when it goes.
pub(crate) struct Local<'a>(pub(crate) &'a Journal, pub(crate) &'static str);

impl Drop for Local<'_> {
    fn drop(&mut self) {
        self.0.write(self.1);
    }
}
