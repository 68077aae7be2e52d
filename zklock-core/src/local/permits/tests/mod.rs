//! The bound of handoffs of a semaphore, in exact virtual time.

mod bound;
mod world;
