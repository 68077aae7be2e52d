//! Connections: so many, and none on which nothing passes.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// So many are open at the same time. Whoever comes then waits for the end of one.
const MOST: usize = 256;
/// So many of them may be streams of events, which do not end: the rest is for what is asked.
pub(super) const MOST_STREAMS: usize = 200;
/// A connection ends when so long nothing could be sent: its request does not come to an end, its answers
/// are not read, or nothing is asked. Longer than streams are without news. While an answer is being prepared, for which there
/// are other limits, it does not end.
const IDLE: Duration = Duration::from_secs(20);

/// Accepts connections.
pub(super) struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Self {
        Bounded { listener, room: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // It is never closed.
        let room = self.room.clone().acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (Connection::new(stream, room), from)
    }

    fn local_addr(&self) -> Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) from: SocketAddr,
    work: Arc<Work>,
}

impl Peer {
    /// An answer is being prepared, until this is dropped.
    pub(super) fn works(&self) -> Working {
        self.work.running.fetch_add(1, SeqCst);
        Working(self.work.clone())
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Peer { from: *stream.remote_addr(), work: stream.io().work.clone() }
    }
}

/// What goes on behind a connection.
#[derive(Debug, Default)]
struct Work {
    /// How many answers are being prepared.
    running: AtomicUsize,
    /// Whether one was, of which nothing is sent yet.
    has_run: AtomicBool,
}

pub(super) struct Working(Arc<Work>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.has_run.store(true, SeqCst);
        self.0.running.fetch_sub(1, SeqCst);
    }
}

pub(super) struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    work: Arc<Work>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn new(stream: TcpStream, room: Option<OwnedSemaphorePermit>) -> Self {
        let work = Arc::default();
        Connection { stream, end: Box::pin(sleep(IDLE)), work, _room: room }
    }

    /// What is not ready fails when the time is over.
    fn in_time<T>(&mut self, done: Poll<Result<T>>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        if done.is_ready() {
            return done;
        }
        while self.end.as_mut().poll(cx).is_ready() {
            let Work { running, has_run } = &*self.work;
            if running.load(SeqCst) == 0 && !has_run.swap(false, SeqCst) {
                return Poll::Ready(Err(Error::from(ErrorKind::TimedOut)));
            }
            self.begin_anew();
        }
        Poll::Pending
    }

    fn begin_anew(&mut self) {
        self.end.as_mut().reset(Instant::now() + IDLE);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        self.in_time(read, cx)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.work.has_run.store(false, SeqCst);
            self.begin_anew();
        }
        self.in_time(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::poll_once;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_connection_stays_while_an_answer_is_prepared_and_for_a_while_after_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, from) = listener.accept().await.unwrap();
        let mut connection = Connection::new(stream, None);
        let peer = Peer { from, work: connection.work.clone() };
        let second = Duration::from_secs(1);
        let is_open = async |connection: &mut Connection, after: Duration| {
            advance(after).await;
            match poll_once(connection.read(&mut [0])).await {
                None => true,
                Some(ended) => {
                    assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
                    false
                }
            }
        };
        assert!(is_open(&mut connection, IDLE - second).await);
        let working = peer.works();
        for _ in 0..3 {
            assert!(is_open(&mut connection, IDLE - second).await);
        }
        drop(working);
        assert!(is_open(&mut connection, second + second).await);
        connection.write_all(b"x").await.unwrap();
        client.read_exact(&mut [0]).await.unwrap();
        assert!(is_open(&mut connection, IDLE - second).await);
        assert!(!is_open(&mut connection, second).await);
        // Whose answer was not sent does not stay for ever either.
        drop(peer.works());
        connection.begin_anew();
        assert!(is_open(&mut connection, IDLE).await);
        assert!(!is_open(&mut connection, IDLE).await);
    }
}
