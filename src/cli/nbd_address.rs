//! The addresses at which commands serve NBD.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use diskfs::{Error, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// The port of NBD, which IANA has assigned.
const PORT: u16 = 10809;

/// The characters of a URI's path and query that are escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'/')
    .remove(b'_')
    .remove(b'~');

/// An address at which NBD is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String, u16),
    /// The sockets that the service manager passes.
    Inherited,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "systemd" {
            return Ok(Self::Inherited);
        }
        let invalid = || format!("expected unix:PATH, tcp:HOST[:PORT] or systemd, got `{text}`");
        match text.split_once(':').ok_or_else(invalid)? {
            ("unix", path) if !path.is_empty() => Ok(Self::Unix(path.into())),
            ("tcp", place) if !place.is_empty() => {
                // The colons of an IPv6 address are within brackets.
                let after = place.rfind(']').map_or(0, |at| at.saturating_add(1));
                let (before, rest) = place.split_at_checked(after).ok_or_else(invalid)?;
                let (host, port) = rest.split_once(':').unwrap_or((rest, ""));
                let port = match port {
                    "" => PORT,
                    number => number.parse().map_err(|_| invalid())?,
                };
                let host = format!("{before}{host}");
                Ok(Self::Tcp(host, port))
            }
            _ => Err(invalid()),
        }
    }
}

/// Binds a host's port, after `check` has accepted each of the host's addresses.
pub(super) fn bind_tcp(
    host: &str,
    port: u16,
    check: &dyn Fn(&SocketAddr) -> Result<()>,
) -> Result<TcpListener> {
    let place = format!("{host}:{port}");
    let failed = |error| Error::from(error).in_file(format!("tcp:{place}"));
    let addresses: Vec<SocketAddr> = place.to_socket_addrs().map_err(failed)?.collect();
    for address in &addresses {
        check(address)?;
    }
    TcpListener::bind(&*addresses).map_err(failed)
}

/// Escapes a path or a name for a URI.
pub(super) fn escaped(bytes: &[u8]) -> String {
    percent_encode(bytes, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_kind() {
        let tcp = |host: &str, port| Ok(Address::Tcp(host.to_owned(), port));
        assert_eq!("unix:/a:b".parse(), Ok(Address::Unix("/a:b".into())));
        assert_eq!("systemd".parse(), Ok(Address::Inherited));
        assert_eq!("tcp:localhost".parse(), tcp("localhost", PORT));
        assert_eq!("tcp:[::1]:0".parse(), tcp("[::1]", 0));
        assert_eq!("tcp:[::1]".parse(), tcp("[::1]", PORT));
        assert_eq!("tcp:0.0.0.0:1".parse(), tcp("0.0.0.0", 1));
        for wrong in ["/a", "unix:", "tcp:", "tcp:a:b", "tcp:a:1:2", "nbd:a"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_is_escaped_for_a_uri() {
        assert_eq!(escaped(b"/run/a b?&.sock"), "/run/a%20b%3F%26.sock");
    }
}
