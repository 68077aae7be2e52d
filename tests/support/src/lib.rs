//! Real ZooKeeper servers and a frame proxy for tests.
