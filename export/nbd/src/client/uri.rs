//! The URIs of exports, as `doc/uri.md` of the project NBD describes them.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

use diskfs_block::{Error, Result};

use crate::protocol::MAX_STRING_BYTES;

/// The port of NBD.
const PORT: u16 = 10809;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host, by name or by address, and its port.
    Tcp(String, u16),
    /// A Unix socket. A path that begins with NUL is an abstract socket.
    Unix(PathBuf),
}

/// The URI of an export: `nbd://HOST[:PORT]/EXPORT`, `nbd+unix:///EXPORT?socket=PATH`, and with TLS
/// `nbds://` and `nbds+unix://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// The address of the server.
    pub address: Address,
    /// The name of the export.
    pub export: String,
    /// True if the connection must be encrypted.
    pub is_encrypted: bool,
    /// The name that the server's certificate must have (`tls-hostname`), if it is not the host's.
    pub tls_hostname: Option<String>,
    /// The directory of `ca-cert.pem`, and of `client-cert.pem` and `client-key.pem` if the server
    /// asks for them (`tls-certificates`, as in libnbd).
    pub tls_certificates: Option<PathBuf>,
}

impl Uri {
    /// Returns true for a text that begins with a scheme of NBD.
    pub fn is_uri(text: &str) -> bool {
        text.split_once("://")
            .is_some_and(|(scheme, _)| scheme_parts(scheme).is_some())
    }

    /// Returns the name that the server's certificate must have.
    pub(crate) fn server_name(&self) -> String {
        match (&self.tls_hostname, &self.address) {
            (Some(name), _) => name.clone(),
            (None, Address::Tcp(host, _)) => host.clone(),
            // As libnbd does.
            (None, Address::Unix(_)) => "localhost".to_owned(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "tls-hostname" => self.tls_hostname = Some(text(value)?),
            "tls-certificates" => self.tls_certificates = Some(path(value)?),
            "tls-type" if value == "x509" => {}
            "tls-type" => {
                let reason = format!("unsupported TLS authentication `{value}`; use `x509`");
                return Err(Error::unsupported(reason));
            }
            "tls-verify-peer" if value == "1" => {}
            "tls-verify-peer" => {
                let reason = "cannot use TLS without verifying the server";
                return Err(Error::unsupported(reason));
            }
            _ => {
                return Err(Error::invalid(format!(
                    "unknown parameter `{key}` in the URI"
                )));
            }
        }
        Ok(())
    }
}

impl FromStr for Uri {
    type Err = Error;

    fn from_str(uri: &str) -> Result<Self> {
        parse(uri).map_err(|error| error.in_file(uri))
    }
}

impl fmt::Display for Uri {
    /// Writes the address and the name of the export, without parameters of TLS.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "nbds" } else { "nbd" };
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => {
                write!(f, "{scheme}://[{host}]:{port}/{}", self.export)
            }
            Address::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}/{}", self.export),
            Address::Unix(path) => {
                let path = path.display();
                write!(f, "{scheme}+unix:///{}?socket={path}", self.export)
            }
        }
    }
}

/// Returns whether a scheme means TLS, and whether it means a Unix socket.
fn scheme_parts(scheme: &str) -> Option<(bool, bool)> {
    match scheme {
        "nbd" | "nbd+tcp" => Some((false, false)),
        "nbds" | "nbds+tcp" => Some((true, false)),
        "nbd+unix" => Some((false, true)),
        "nbds+unix" => Some((true, true)),
        _ => None,
    }
}

fn parse(uri: &str) -> Result<Uri> {
    let invalid = |reason: &'static str| Error::invalid(reason);
    let (scheme, rest) = uri
        .split_once("://")
        .ok_or_else(|| invalid("invalid NBD URI"))?;
    let parts = scheme_parts(scheme);
    let (is_encrypted, is_unix) = parts.ok_or_else(|| invalid("unknown scheme of an NBD URI"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
    let export = text(name)?;
    if export.len() > MAX_STRING_BYTES {
        return Err(invalid("the name of the export is longer than 4096 bytes"));
    }
    let mut socket = None;
    let mut parameters = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "socket" if is_unix => socket = Some(path(value)?),
            _ => parameters.push((key, value)),
        }
    }
    let address = match (is_unix, socket) {
        (true, Some(path)) => Address::Unix(path),
        (true, None) => return Err(invalid("missing parameter `socket` in the URI")),
        (false, _) => tcp(authority)?,
    };
    let mut parsed = Uri {
        address,
        export,
        is_encrypted,
        tls_hostname: None,
        tls_certificates: None,
    };
    for (key, value) in parameters {
        parsed.set(key, value)?;
    }
    Ok(parsed)
}

/// Parses `[USER@]HOST[:PORT]`.
fn tcp(authority: &str) -> Result<Address> {
    // The user is for authentication by names, which we don't have.
    let address = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest
                .split_once(']')
                .ok_or_else(|| Error::invalid("unmatched `[` in the URI"))?;
            (host, port.strip_prefix(':'))
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port {
        None | Some("") => PORT,
        Some(port) => port
            .parse()
            .map_err(|_| Error::invalid(format!("invalid port `{port}`")))?,
    };
    let host = if host.is_empty() { "localhost" } else { host };
    Ok(Address::Tcp(text(host)?, port))
}

fn text(encoded: &str) -> Result<String> {
    let text = String::from_utf8(decoded(encoded)?);
    let text = text.map_err(|_| Error::invalid("a part of the URI is not UTF-8"))?;
    if text.contains('\0') {
        return Err(Error::invalid("a part of the URI contains NUL"));
    }
    Ok(text)
}

fn path(encoded: &str) -> Result<PathBuf> {
    Ok(OsString::from_vec(decoded(encoded)?).into())
}

/// Replaces `%XX` by the bytes.
fn decoded(encoded: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(Option::unwrap_or_default);
        let value = digits.map(|digit| char::from(digit).to_digit(16));
        let [Some(high), Some(low)] = value else {
            return Err(Error::invalid("invalid `%` in the URI"));
        };
        bytes.extend(u8::try_from(high.saturating_mul(16).saturating_add(low)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_uri(uri: &str) -> (String, u16, String) {
        let uri: Uri = uri.parse().unwrap();
        let Address::Tcp(host, port) = uri.address else {
            panic!("{uri}");
        };
        (host, port, uri.export)
    }

    #[test]
    fn the_examples_of_the_specification() {
        let of = |host: &str, port, name: &str| (host.to_owned(), port, name.to_owned());
        assert_eq!(
            tcp_uri("nbd://example.com/disk"),
            of("example.com", 10809, "disk")
        );
        assert_eq!(tcp_uri("nbd://example.com/"), of("example.com", 10809, ""));
        assert_eq!(tcp_uri("nbd://example.com"), of("example.com", 10809, ""));
        assert_eq!(
            tcp_uri("nbd://example.com//disk"),
            of("example.com", 10809, "/disk")
        );
        assert_eq!(
            tcp_uri("nbd://u@[::1]:99/hello%20world"),
            of("::1", 99, "hello world")
        );
        let unix: Uri = "nbds+unix:///disk?socket=%2Frun/a%3Fb&tls-hostname=h"
            .parse()
            .unwrap();
        assert_eq!(unix.address, Address::Unix("/run/a?b".into()));
        assert_eq!((&*unix.export, unix.is_encrypted), ("disk", true));
        assert_eq!(unix.server_name(), "h");
    }

    #[test]
    fn invalid_uris_are_refused() {
        for uri in [
            "http://host/",
            "nbd+unix:///x",
            "nbd://host:99999/",
            "nbd://host/%4",
            "nbd://host/%zz",
            "nbd://host/%00",
            "nbd://[::1/",
            "nbd://host/?unknown=1",
            "nbds://host/?tls-verify-peer=0",
            "nbds://host/?tls-type=psk",
        ] {
            assert!(uri.parse::<Uri>().is_err(), "{uri}");
        }
        assert!(!Uri::is_uri("disk.qcow2") && Uri::is_uri("nbds+unix:///?socket=x"));
    }
}
