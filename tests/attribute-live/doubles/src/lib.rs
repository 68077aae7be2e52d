//! A database in memory with the interface that most clients have, for the examples in
//! `docs/attribute.md` and `docs/recipes.md`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of numbers. A row stands for whatever a statement would write.
#[derive(Clone, Debug, Default)]
pub struct Pool(Arc<Mutex<Vec<u64>>>);

/// What a statement fails with.
#[derive(Debug)]
pub struct Error;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the database refused")
    }
}

impl std::error::Error for Error {}

/// Writes nothing unless it is committed.
#[derive(Debug)]
pub struct Transaction {
    pool: Pool,
    rows: Vec<u64>,
}

impl Pool {
    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// None, but a database's client has some.
    pub async fn begin(&self) -> Result<Transaction, Error> {
        Ok(Transaction { pool: self.clone(), rows: Vec::new() })
    }

    /// Says whether a row is there.
    ///
    /// # Errors
    ///
    /// As [`begin`](Pool::begin).
    pub async fn contains(&self, row: u64) -> Result<bool, Error> {
        Ok(self.rows().contains(&row))
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Transaction {
    /// The greatest row.
    ///
    /// # Errors
    ///
    /// As [`Pool::begin`].
    pub async fn last(&mut self) -> Result<u64, Error> {
        Ok(self.pool.rows().last().copied().unwrap_or_default())
    }

    /// Writes a row.
    ///
    /// # Errors
    ///
    /// As [`Pool::begin`].
    pub async fn insert(&mut self, row: u64) -> Result<(), Error> {
        self.rows.push(row);
        Ok(())
    }

    /// Stores a token, unless a greater one is stored for that account; says whether it did.
    ///
    /// # Errors
    ///
    /// As [`Pool::begin`].
    pub async fn raise_fence(&mut self, _account: u64, _token: &[u8; 16]) -> Result<bool, Error> {
        Ok(true)
    }

    /// Makes it real.
    ///
    /// # Errors
    ///
    /// As [`Pool::begin`].
    pub async fn commit(self) -> Result<(), Error> {
        let mut rows = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.extend(self.rows);
        Ok(())
    }
}
