//! Access to the server: the token in each URL, the names of the server, and the headers that
//! restrict what the page can do.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

/// The number of random bytes in a token.
const TOKEN_BYTES: usize = 16;

/// The headers of every answer. The page can only load files of this server, runs no inline script,
/// and tells no other server its address, which contains the token.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        HeaderName::from_static("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("x-frame-options"), "DENY"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (CACHE_CONTROL, "no-store"),
];

/// The conditions for a request.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    /// The names of the server besides `localhost`.
    names: Vec<String>,
}

impl Guard {
    /// Chooses a token.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub(crate) fn new(names: Vec<String>) -> std::io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let token = format!("{:032x}", u128::from_ne_bytes(bytes));
        Ok(Self { token, names })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns true if the first part of a path is the token. The time does not depend on how much
    /// of it is right.
    fn allows_path(&self, path: &str) -> bool {
        let first = path.split('/').nth(1).unwrap_or_default();
        first.as_bytes().ct_eq(self.token.as_bytes()).into()
    }

    /// Returns true if the header `Host` is an address or a name of this server. A page of another
    /// site whose name was changed to resolve to this host (DNS rebinding) still sends its name.
    fn allows_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let name = host.map(without_port).unwrap_or_default();
        let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        address.unwrap_or(name).parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Refuses requests without the token or with another server's name, and adds the headers to every
/// answer.
pub(crate) async fn check(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if !guard.allows_host(request.headers()) {
        refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "unknown host: use the address that diskfs printed, or start it with --allow-host NAME\n",
        )
    } else if !guard.allows_path(request.uri().path()) {
        refusal(
            StatusCode::NOT_FOUND,
            "no such page: use the address that diskfs printed, with its token\n",
        )
    } else {
        next.run(request).await
    };
    let added = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(added);
    response
}

fn refusal(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_and_known_names() {
        let guard = Guard::new(vec!["disks.example".to_owned()]).unwrap();
        let allows = |host: &str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            guard.allows_host(&headers)
        };
        for host in [
            "127.0.0.1:80",
            "[::1]:8080",
            "[::1]",
            "localhost",
            "LOCALHOST:1",
            "disks.example:9",
        ] {
            assert!(allows(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(!allows(host), "{host}");
        }
        assert!(!guard.allows_host(&HeaderMap::new()));
    }

    #[test]
    fn paths_begin_with_the_token() {
        let guard = Guard::new(Vec::new()).unwrap();
        let token = guard.token().to_owned();
        assert_eq!(token.len(), 32);
        assert!(guard.allows_path(&format!("/{token}/api/ls")));
        for path in [
            "/",
            "",
            "/x",
            &token,
            &format!("/{}", &token[1..]),
            &format!("//{token}/"),
            &format!("/{token}x/"),
        ] {
            assert!(!guard.allows_path(path), "{path}");
        }
    }
}
