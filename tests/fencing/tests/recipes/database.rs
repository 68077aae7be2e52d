//! SQLite, with the interface that the recipes ask of a database's client.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::{Connection, Error};
use tokio::task::yield_now;

/// A database in a file of its own, which goes with it. Every transaction has a connection.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    open: AtomicUsize,
    overlapped: AtomicUsize,
}

/// Writes nothing unless it is committed.
#[derive(Debug)]
pub(crate) struct Transaction {
    connection: Connection,
    // After the connection, which rolls back when it goes.
    _open: Open,
}

#[derive(Debug)]
struct Open(Arc<Shared>);

impl Pool {
    /// An empty table, in which a number that is repeated would be seen.
    pub(crate) fn new() -> Pool {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = format!("zklock-recipes-{}-{number}.sqlite", std::process::id());
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        let pool = Pool(Arc::new(Shared { file, open: 0.into(), overlapped: 0.into() }));
        let made = pool.connect().unwrap();
        // Readers do not stop writers, as in most databases.
        made.execute_batch(
            "pragma journal_mode = wal; create table rows (number integer not null);
             create table fences (account integer primary key, token blob not null)",
        )
        .unwrap();
        pool
    }

    fn connect(&self) -> Result<Connection, Error> {
        let connection = Connection::open(&self.0.file)?;
        // Nobody waits for the disk, and nobody for a lock of the database: whoever meets one fails.
        connection.execute_batch("pragma synchronous = off; pragma busy_timeout = 0")?;
        Ok(connection)
    }

    pub(crate) async fn begin(&self) -> Result<Transaction, Error> {
        yield_now().await;
        let open = Open(self.0.clone());
        if self.0.open.fetch_add(1, Ordering::SeqCst) > 0 {
            self.0.overlapped.fetch_add(1, Ordering::SeqCst);
        }
        let connection = self.connect()?;
        connection.execute_batch("begin")?;
        Ok(Transaction { connection, _open: open })
    }

    pub(crate) async fn contains(&self, number: u64) -> Result<bool, Error> {
        yield_now().await;
        Ok(self.rows().contains(&number))
    }

    /// What is committed, in the order of the commits.
    pub(crate) fn rows(&self) -> Vec<u64> {
        let connection = self.connect().unwrap();
        let mut select = connection.prepare("select number from rows order by rowid").unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// How many transactions began before the one before them was over.
    pub(crate) fn overlapped(&self) -> usize {
        self.0.overlapped.load(Ordering::SeqCst)
    }
}

impl Transaction {
    pub(crate) async fn last(&mut self) -> Result<u64, Error> {
        yield_now().await;
        self.connection.query_row("select coalesce(max(number), 0) from rows", [], |row| row.get(0))
    }

    pub(crate) async fn insert(&mut self, number: u64) -> Result<(), Error> {
        yield_now().await;
        self.connection.execute("insert into rows values (?1)", [number]).map(drop)
    }

    pub(crate) async fn raise_fence(
        &mut self,
        account: u64,
        token: &[u8; 16],
    ) -> Result<bool, Error> {
        yield_now().await;
        let sql = "insert into fences values (?1, ?2)
                   on conflict (account) do update set token = ?2 where token <= ?2";
        Ok(self.connection.execute(sql, (account, token.as_slice()))? == 1)
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        yield_now().await;
        self.connection.execute_batch("commit")?;
        // The word of it is on its way.
        yield_now().await;
        Ok(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for behind in ["", "-wal", "-shm"] {
            let mut file = self.file.clone().into_os_string();
            file.push(behind);
            drop(std::fs::remove_file(file));
        }
    }
}
