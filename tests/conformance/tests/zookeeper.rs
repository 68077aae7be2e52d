//! The conformance suite on a real ZooKeeper.

use std::sync::Arc;

use zklock_conformance::Server;
use zklock_core::conformance::Harness;

fn server() -> Arc<dyn Harness> {
    Arc::new(Server::new(std::env::var("ZKLOCK_EXP").unwrap()))
}

zklock_core::conformance_tests!(server());
