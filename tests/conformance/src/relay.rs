//! A relay between one client and the server.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the relay does with what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Keeps what the client sends.
    Stall,
    /// Breaks every connection, and drops what was kept.
    Cut,
}

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<Mode>,
}

impl Relay {
    pub(crate) async fn start(server: String) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, mode) = watch::channel(Mode::Pass);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *mode.borrow() != Mode::Cut {
                    tokio::spawn(serve(client, server.clone(), mode.clone()));
                }
            }
        });
        Relay { address, mode: sender }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn serve(client: TcpStream, server: String, mut mode: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let up = pass(from_client, to_server, mode.clone());
    let down = async { tokio::io::copy(&mut from_server, &mut to_client).await.map(drop) };
    tokio::select! {
        _ = mode.wait_for(|mode| *mode == Mode::Cut) => {}
        _ = up => {}
        _ = down => {}
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
) -> std::io::Result<()> {
    let mut buffer = [0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        if mode.wait_for(|mode| *mode != Mode::Stall).await.is_err() || *mode.borrow() == Mode::Cut
        {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
