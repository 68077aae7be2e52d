//! Which process of this machine has a connection.

use std::fs;

/// Whether the process with this number has a connection from this address, as far as `/proc` tells. Whoever is called as
/// this machine may be a process of a container, whose numbers are others: here, the number is that of somebody else, or
/// of nobody.
pub(super) fn has_connection(process: u32, from: &str) -> bool {
    let port = from.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let Some(port) = port else { return false };
    let links = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut open = links
        .filter_map(|link| fs::read_link(link.path()).ok()?.into_os_string().into_string().ok());
    let sockets = sockets(port);
    open.any(|open| sockets.contains(&open))
}

/// The sockets with this port on this machine, as they are called where they are open.
fn sockets(port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let read = |table| fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    let tables = ["tcp", "tcp6"].map(read);
    let lines = tables.iter().flat_map(|table| table.lines());
    let socket = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        let is_its = columns.next()?.ends_with(&port);
        is_its.then(|| Some(format!("socket:[{}]", columns.nth(7)?)))?
    };
    lines.filter_map(socket).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::id;

    use super::*;

    #[test]
    fn only_who_has_a_connection_is_the_process_behind_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Not each machine has both.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let from = stream.local_addr().unwrap().to_string();
            assert!(has_connection(id(), &from), "{from}");
            // The first process of the machine, and none.
            assert!(!has_connection(1, &from) && !has_connection(u32::MAX, &from), "{from}");
            drop(stream);
            assert!(!has_connection(id(), &from), "{from}");
        }
        assert!(!has_connection(id(), ""));
    }
}
