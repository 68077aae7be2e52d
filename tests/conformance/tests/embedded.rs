//! The conformance suite on the embedded coordinator.

zklock_conformance::conformance_tests!(zklock_conformance::embedded());
