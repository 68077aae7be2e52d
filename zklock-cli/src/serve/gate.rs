//! Which requests are answered at all, and how browsers are told to treat the answers.
//!
//! Browsers send requests for other pages too. A page that is not ours may point a name of its own at this
//! machine (DNS rebinding), and then it is in the `Host` header: only addresses, which cannot be pointed
//! anywhere, and names that were told are answered. A page may also send a request straight to our address;
//! browsers say so in `Origin` and `Sec-Fetch-Site`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::serve::routes::refusal;

/// What the page may do: load what this server sends, and nothing else. Nothing in it can be made of text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// The names under which the page is reached.
#[derive(Debug)]
pub(super) struct Names(Vec<String>);

impl Names {
    /// Those of the address, and more, which may have a port, as the header has one. Fails with what is no name.
    pub(super) fn new(listen: &str, more: &[String]) -> Result<Self, String> {
        let is_name = |name: &&str| !name.is_empty() && !name.contains('/');
        let name = |told: &String| {
            let name = name_of(told).filter(is_name).map(str::to_lowercase);
            name.ok_or_else(|| format!("--host: {told:?} is not the name of a host"))
        };
        let own = name_of(listen).filter(is_name).map(str::to_lowercase);
        own.map(Ok).into_iter().chain(more.iter().map(name)).collect::<Result<_, _>>().map(Names)
    }

    /// Whether a `Host` header has an address or one of the names.
    fn have(&self, host: &str) -> bool {
        let Some(name) = name_of(host).map(str::to_lowercase) else { return false };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<std::net::IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.0.contains(&name)
    }
}

/// The host of `host:port`.
fn name_of(authority: &str) -> Option<&str> {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => Some(name),
        Some(_) if !authority.ends_with(']') => None,
        _ => Some(authority),
    }
}

pub(super) async fn gate(
    State(names): State<Arc<Names>>,
    request: Request,
    next: Next,
) -> Response {
    let refused = refuse(&names, request.headers(), request.uri().path().starts_with("/api/"));
    let mut response = match refused {
        Some(why) => refusal(StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
    response
}

/// Why a request is not answered.
fn refuse(names: &Names, headers: &HeaderMap, is_api: bool) -> Option<String> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or(""));
    let host = text(header::HOST).unwrap_or_default();
    if !names.have(host) {
        // The port is none of `--host`'s.
        let name = name_of(host).unwrap_or(host);
        return Some(format!(
            "{name:?} is no name of this server; `zklock serve --host NAME` adds one"
        ));
    }
    // Links from other pages to this one are fine.
    if !is_api {
        return None;
    }
    let foreign =
        match (text(header::ORIGIN), text(header::HeaderName::from_static("sec-fetch-site"))) {
            (Some(origin), _) if origin.split_once("://").map(|(_, at)| at) != Some(host) => true,
            (_, Some(site)) => !matches!(site, "same-origin" | "none"),
            _ => false,
        };
    foreign.then(|| "pages of other origins are not answered".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_known_names_are_hosts() {
        let more = ["Locks.example", "locks.org:8427"].map(str::to_owned);
        let names = Names::new("db7:8427", &more).unwrap();
        for good in
            ["127.0.0.1:8427", "127.0.0.1", "[::1]:8427", "[::1]", "localhost:1", "a.localhost"]
        {
            assert!(names.have(good), "{good}");
        }
        assert!(names.have("DB7:8427") && names.have("locks.example"));
        assert!(names.have("locks.org") && names.have("locks.org:8427"));
        for bad in
            ["", "evil.example:8427", "127.0.0.1.evil.example", "localhost.evil", "db7:x", "db"]
        {
            assert!(!names.have(bad), "{bad}");
        }
        for wrong in ["", ":8427", "http://locks.example", "locks.example/", "locks.example:http"] {
            let refused = Names::new("db7:8427", &[wrong.to_owned()]).unwrap_err();
            assert!(refused.contains(&format!("{wrong:?}")), "{refused}");
        }
    }

    /// It is what an option accepts.
    #[test]
    fn a_name_that_is_refused_is_told_as_it_is_added() {
        let names = Names::new("127.0.0.1:8427", &[]).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("locks.example:8427"));
        let refused = refuse(&names, &headers, false).unwrap();
        assert!(refused.starts_with("\"locks.example\" is no name of this server; "), "{refused}");
    }
}
