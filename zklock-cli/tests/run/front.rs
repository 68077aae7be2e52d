//! A server in front of another one, which does something when it is asked for its connections.

use std::collections::VecDeque;
use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

/// What is done the next times, each once.
type Once = Arc<Mutex<VecDeque<Box<dyn FnOnce() + Send>>>>;

/// The address at which another server answers, too.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) addr: String,
    before: Once,
    after: Once,
}

impl Front {
    pub(crate) fn of(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let (before, after) = <(Once, Once)>::default();
        let (server, hooks) = (server.to_owned(), (before.clone(), after.clone()));
        spawn(move || {
            for client in listener.incoming() {
                let (server, hooks) = (server.clone(), hooks.clone());
                // Whoever comes may go at any time.
                spawn(move || serve(client.ok()?, &server, &hooks));
            }
        });
        Front { addr, before, after }
    }

    /// Does something before it tells its connections the next time; if that is called again, the time after
    /// that.
    pub(crate) fn before(&self, does: impl FnOnce() + Send + 'static) {
        self.before.lock().unwrap().push_back(Box::new(does));
    }

    /// The same when it has told its connections, and whoever asked waits for the end.
    pub(crate) fn after(&self, does: impl FnOnce() + Send + 'static) {
        self.after.lock().unwrap().push_back(Box::new(does));
    }

    /// Forgets what it has not begun to do.
    pub(crate) fn forget(&self) {
        self.before.lock().unwrap().clear();
        self.after.lock().unwrap().clear();
    }
}

fn run(once: &Once) {
    let does = once.lock().unwrap().pop_front();
    if let Some(does) = does {
        does();
    }
}

fn serve(mut client: TcpStream, server: &str, (before, after): &(Once, Once)) -> Option<()> {
    let mut begin = [0; 4];
    client.read_exact(&mut begin).ok()?;
    let asks = &begin == b"cons";
    if asks {
        run(before);
    }
    let mut server = TcpStream::connect(server).ok()?;
    server.write_all(&begin).ok()?;
    let (mut from, mut to) = (client.try_clone().ok()?, server.try_clone().ok()?);
    spawn(move || {
        _ = copy(&mut from, &mut to);
        to.shutdown(Shutdown::Write)
    });
    _ = copy(&mut server, &mut client);
    if asks {
        run(after);
    }
    client.shutdown(Shutdown::Both).ok()
}
