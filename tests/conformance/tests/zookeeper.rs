//! The conformance suite on a real ZooKeeper.

use std::sync::Arc;

use zklock_conformance::server;

zklock_core::conformance_tests!(Arc::new(server()));
