//! Nothing of its own: the tests are those of `tests/attribute`, in edition 2021.
