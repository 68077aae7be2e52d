//! What a client does with what a server sends it.

use std::task::Waker;

use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

use super::client::{Client, Phase, State, Timing, WatchKind, Watching};
use super::frames::{Answer, Hello, ToClient, ToServer};
use super::machine::Machine;
use super::txn::Path;
use super::watches::{Notice, WatchList};

/// How many bytes of paths the client sets watches for in one request.
const SET_WATCHES: usize = 128 * 1024;

impl Machine {
    /// Takes a frame of the connection that the client has.
    pub(super) fn take_frame(&mut self, id: u64, client: &mut Client, wire: u64, frame: ToClient) {
        if let ToClient::End | ToClient::Reset = frame {
            return match client.phase {
                Phase::Dialing { .. } => self.failed(id, client),
                Phase::Shaking { .. } => self.start_once(id, client),
                _ if client.closing.is_some() && client.sent.is_empty() => {
                    self.finish(client, State::Closed, &RequestError::Closed);
                }
                _ => {
                    let error = match frame {
                        ToClient::End => RequestError::ConnectionLoss,
                        _ => RequestError::Other("Connection reset by peer".to_owned()),
                    };
                    self.lost(id, client, &error);
                }
            };
        }
        client.last_receive = self.now;
        self.known.hears(client.process.0, self.now);
        // Of its connection a client hears from the system first, and then from the server.
        if !matches!(frame, ToClient::Accepted) {
            self.is_back(client.session, wire);
        }
        match frame {
            ToClient::Accepted => self.introduce(client, wire),
            ToClient::Connected { session: 0, .. } => {
                return self.finish(client, State::Expired, &RequestError::SessionExpired);
            }
            ToClient::Connected { session, timeout } => {
                client.session = session;
                client.timing = Timing::new(timeout, client.configured);
                client.set_state(State::Connected, &mut self.wake);
                self.ping(client, wire);
            }
            ToClient::Reply { answer: Err(RequestError::SessionExpired), .. } => {
                return self.finish(client, State::Expired, &RequestError::SessionExpired);
            }
            ToClient::Reply { xid, zxid, answer } => {
                client.seen = client.seen.max(zxid);
                self.shows(client.session, (wire, xid), &answer);
                self.reply(client, xid, answer);
                if client.closing == Some(xid) {
                    return self.finish(client, State::Closed, &RequestError::Closed);
                }
            }
            ToClient::Notice(notice, path) => dispatch(client, notice, &path, &mut self.wake),
            // The client knows all such requests by one number, and takes the second answer for an
            // error of the server's.
            ToClient::WatchesSet { .. } if client.watches_set => {
                self.hang_up(wire);
                return self.failed(id, client);
            }
            ToClient::WatchesSet { zxid } => {
                client.watches_set = true;
                client.seen = client.seen.max(zxid);
                shaken(client);
            }
            ToClient::Pong => {
                client.pinged = false;
                for xid in client.said.pop_front().unwrap_or_default() {
                    client.answer(xid, Ok((Answer::Done, None)), &mut self.wake);
                }
                shaken(client);
            }
            ToClient::End | ToClient::Reset => {}
        }
        // Only then does it begin to send what it is asked for.
        if let Phase::Shaking { wire, answers: 0, .. } = client.phase
            && client.state == State::Connected
        {
            client.phase = Phase::Serving { wire, since: self.now };
            client.opened.get_or_insert(Ok(()));
            client.tell_watchers(&mut self.wake);
            client.cycles = true;
            client.next_server = 0;
            client.start_server = 0;
            self.shuffle(&mut client.servers);
        }
    }

    fn reply(&mut self, client: &mut Client, xid: u64, answer: Result<Answer, RequestError>) {
        client.sent.retain(|sent| *sent != xid);
        let watches = client.slots.get_mut(&xid).and_then(|slot| slot.watches.take());
        let answer = answer.map(|answer| {
            let watch = watches.map(|(kind, path)| {
                let id = self.unique();
                client.watches.insert(id, Watching { path, kind, event: None, waker: None });
                id
            });
            (answer, watch)
        });
        client.answer(xid, answer, &mut self.wake);
    }

    fn introduce(&mut self, client: &mut Client, wire: u64) {
        let hello = Hello {
            session: client.session,
            seen: client.seen,
            timeout: client.timing.session,
            credentials: client.credentials,
            access: client.access,
        };
        if client.session == 0 {
            client.proven = self.now;
        }
        self.send_to_server(wire, ToServer::Connect(hello));
        let mut answers = 1;
        let mut list = WatchList { seen: client.seen, ..WatchList::default() };
        for watching in client.watches.values().filter(|watching| watching.event.is_none()) {
            let paths = match watching.kind {
                WatchKind::Data => &mut list.data,
                WatchKind::Children => &mut list.children,
            };
            if !paths.contains(&watching.path) {
                paths.push(watching.path.clone());
            }
        }
        if !(list.data.is_empty() && list.children.is_empty()) {
            // In the order of a hash map.
            for paths in [&mut list.data, &mut list.children] {
                if paths.len() > 1 {
                    let by = self.world.choose(paths.len() as u32);
                    paths.rotate_left(by as usize);
                }
            }
            let bytes: usize = list.data.iter().chain(&list.children).map(|path| path.len()).sum();
            self.send_to_server(wire, ToServer::SetWatches(list));
            answers += 1;
            if bytes > SET_WATCHES {
                self.send_to_server(wire, ToServer::SetWatches(WatchList::default()));
            }
        }
        client.phase = Phase::Shaking { wire, since: self.now, answers };
        client.last_send = self.now;
        client.pinged = false;
        client.said.clear();
        client.watches_set = false;
        client.set_state(State::Disconnected, &mut self.wake);
    }
}

fn shaken(client: &mut Client) {
    if let Phase::Shaking { answers, .. } = &mut client.phase {
        *answers = answers.saturating_sub(1);
    }
}

/// Tells the watches of a path.
fn dispatch(client: &mut Client, notice: Notice, path: &Path, wake: &mut Vec<Waker>) {
    for watching in client.watches.values_mut() {
        let concerned = match notice {
            Notice::Created | Notice::Data => watching.kind == WatchKind::Data,
            Notice::Children => watching.kind == WatchKind::Children,
            Notice::Deleted => true,
        };
        if concerned && watching.event.is_none() && watching.path == *path {
            watching.event = Some(match notice {
                Notice::Deleted => WatchEvent::Deleted,
                _ => WatchEvent::Changed,
            });
            wake.extend(watching.waker.take());
        }
    }
}
