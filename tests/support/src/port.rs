//! Ports that stay ours while nobody listens on them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// A port of 127.0.0.1 that the kernel gives to nobody else.
///
/// A socket is bound to it but never listens. Linux lets a second socket bind and listen beside
/// it when both have `SO_REUSEADDR` (Java's servers and `std::net::TcpListener` set it), and does
/// not choose the port for a bind to port 0 or for an outgoing connection. So a server finds its
/// port free at the first start and at every restart.
#[derive(Debug)]
pub struct ReservedPort {
    port: u16,
    _socket: OwnedFd,
}

impl ReservedPort {
    /// Reserves a port that is free now.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn reserve() -> Self {
        let reserve = || -> rustix::io::Result<Self> {
            let family = AddressFamily::INET;
            let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
            let bound = SocketAddr::try_from(getsockname(&socket)?)?;
            Ok(Self { port: bound.port(), _socket: socket })
        };
        reserve().unwrap_or_else(|err| panic!("cannot reserve a port of 127.0.0.1: {err}"))
    }

    /// Returns its number.
    pub fn number(&self) -> u16 {
        self.port
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::ReservedPort;

    #[test]
    fn reserved_port_can_be_listened_on_again_and_again() {
        let port = ReservedPort::reserve();
        for _ in 0..3 {
            assert!(TcpStream::connect(port.addr()).is_err(), "nobody listens yet");
            let listener = TcpListener::bind(port.addr()).unwrap();
            let client = TcpStream::connect(port.addr()).unwrap();
            drop((listener.accept().unwrap(), client, listener));
        }
    }

    #[test]
    fn reserved_port_is_not_given_away() {
        let port = ReservedPort::reserve();
        let others: Vec<_> = (0..200).map(|_| ReservedPort::reserve()).collect();
        assert!(others.iter().all(|other| other.number() != port.number()));
    }
}
