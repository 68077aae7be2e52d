//! The conformance suite on the embedded coordinator.

zklock_core::conformance_tests!(zklock_core::coordinator::conformance::embedded());
