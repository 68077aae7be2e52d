//! The connect string: the servers, and the chroot.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::coordinator::request_error::RequestError;

/// A valid connect string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectString {
    /// `host:port` for each server.
    pub(super) servers: Vec<String>,
    /// Empty if there is no chroot.
    pub(super) chroot: String,
}

impl ConnectString {
    /// The connect string for the client library: these servers, each repeated `times` times.
    pub(super) fn to_client(&self, servers: &[&str], times: usize) -> String {
        format!("{}{}", servers.repeat(times).join(","), self.chroot)
    }
}

/// Checks a connect string without any I/O: `host[:port][,host[:port]…][/chroot]`. The default port
/// is 2181, and an IPv6 address is written in brackets.
///
/// # Errors
///
/// [`RequestError::BadArguments`] with a sentence that says what is wrong and what is accepted.
pub fn validate_connect_string(text: &str) -> Result<(), RequestError> {
    parse(text).map(drop)
}

pub(super) fn parse(text: &str) -> Result<ConnectString, RequestError> {
    read(text).map_err(|why| {
        RequestError::BadArguments(format!(
            "the connect string {text:?} is not valid: {why}; accepted is \
             host:port[,host:port...][/chroot], for instance \"zk1:2181,zk2:2181/apps\""
        ))
    })
}

fn read(text: &str) -> Result<ConnectString, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let (servers, chroot) = match text.find('/') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let servers = servers.split(',').map(read_server).collect::<Result<_, _>>()?;
    Ok(ConnectString { servers, chroot: read_chroot(chroot)?.to_owned() })
}

fn read_server(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a server is missing".to_owned());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest
                .split_once(']')
                .ok_or_else(|| format!("{text:?} has no closing bracket ']'"))?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(format!("{host:?} is not an IPv6 address"));
            }
            let port = match rest.strip_prefix(':') {
                None if rest.is_empty() => None,
                None => return Err(format!("{rest:?} is in the place of the port")),
                port => port,
            };
            (format!("[{host}]"), port)
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            if port.is_some_and(|port| port.contains(':')) {
                return Err(format!(
                    "{text:?} has several colons (an IPv6 address needs brackets)"
                ));
            }
            if host.is_empty() {
                return Err(format!("{text:?} has no host"));
            }
            if let Some(wrong) = host.chars().find(|c| !is_host_character(*c)) {
                return Err(format!("the host {host:?} contains {wrong:?}"));
            }
            (host.to_owned(), port)
        }
    };
    let port = match port {
        None => 2181,
        Some(port) => read_port(port)?,
    };
    Ok(format!("{host}:{port}"))
}

fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// The first of the servers whose name no certificate can contain. With such a name the client library panics.
pub(super) fn without_certificate(servers: &[String]) -> Option<&str> {
    let hosts = servers.iter().filter_map(|server| server.rsplit_once(':'));
    hosts.map(|(host, _)| host).find(|host| !can_be_certified(host))
}

fn can_be_certified(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    host.starts_with('[')
        || host.parse::<Ipv4Addr>().is_ok()
        || host.len() <= 253
            && name.split('.').all(is_label)
            && !name.rsplit('.').next().is_some_and(is_number)
}

fn read_port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port != 0 => Ok(port),
        _ => Err(format!("the port {text:?} is not a number from 1 to 65535")),
    }
}

fn read_chroot(text: &str) -> Result<&str, String> {
    let Some(path) = text.strip_prefix('/') else { return Ok("") };
    if path.is_empty() {
        return Ok("");
    }
    if path.contains(',') {
        return Err(
            "the chroot is written once, after the last server, and contains no comma".to_owned()
        );
    }
    if path.contains(|c: char| c.is_whitespace() || c.is_control() || u32::from(c) > 0xffff) {
        return Err(format!(
            "the chroot {text:?} contains a space or another character that is not \
                            accepted"
        ));
    }
    for segment in path.split('/') {
        match segment {
            "" => return Err(format!("the chroot {text:?} has an empty segment")),
            "." | ".." => return Err(format!("the chroot {text:?} is relative")),
            _ => {}
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_certificate_contains_are_found() {
        let servers = |hosts: &[&str]| -> Vec<String> {
            hosts.iter().map(|host| format!("{host}:2281")).collect()
        };
        let good = ["zk1", "zk_1.example.com", "zk.example.com.", "10.0.0.1", "[::1]", "1a"];
        assert_eq!(without_certificate(&servers(&good)), None);
        let long = "a".repeat(64);
        for bad in ["10.1", "zk.1", "zk-", "-zk", "zk..a", "7", ".", &long] {
            assert_eq!(without_certificate(&servers(&["zk1", bad])), Some(bad));
        }
    }

    #[test]
    fn good_strings_are_normalized() {
        for (text, expected) in [
            ("zk1", "zk1:2181"),
            ("zk1:2182,10.0.0.1", "zk1:2182,10.0.0.1:2181"),
            ("[::1]:2181/a", "[::1]:2181/a"),
            ("[fe80::1],b_c-d.e:65535/", "[fe80::1]:2181,b_c-d.e:65535"),
            ("a:1,b:2/x/y.z/ä", "a:1,b:2/x/y.z/ä"),
        ] {
            let parsed = parse(text).unwrap();
            let servers: Vec<_> = parsed.servers.iter().map(String::as_str).collect();
            assert_eq!(parsed.to_client(&servers, 1), expected, "{text}");
        }
        assert_eq!(parse("a:1,b:2/x").unwrap().to_client(&["b:2"], 3), "b:2,b:2,b:2/x");
    }

    #[test]
    fn nonsense_is_refused_with_a_sentence() {
        for text in [
            "",
            " ",
            ",",
            "a,",
            ",a",
            "a,,b",
            "/",
            "/chroot",
            ":2181",
            "a:",
            "a:x",
            "a:0",
            "a:65536",
            "a:-1",
            "a:+1",
            "a: 1",
            " a:1",
            "a:1 ",
            "a b:1",
            "::1:2181",
            "[::1",
            "[]:1",
            "[x]:1",
            "[::1]x",
            "[::1]:",
            "http://a:1",
            "a:1//b",
            "a:1/b/",
            "a:1/b//c",
            "a:1/./b",
            "a:1/..",
            "a:1/b c",
            "a:1/b,c:2",
            "a:1/\0",
            "a:1/😀",
            "a\n:1",
            "a:1:2",
            "zk://a",
        ] {
            let Err(RequestError::BadArguments(why)) = validate_connect_string(text) else {
                panic!("{text:?} passed");
            };
            assert!(why.contains("accepted is host:port"), "{why}");
        }
    }
}
