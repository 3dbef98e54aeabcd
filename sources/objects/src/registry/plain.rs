//! Registries without TLS.

/// The environment variable with the registries that are used without TLS, separated by commas.
const PLAIN_HTTP: &str = "DISKFS_PLAIN_HTTP_REGISTRIES";

/// Returns true for a registry without TLS: of this host, or one that the environment names.
pub(super) fn is_plain(host: &str) -> bool {
    let listed = std::env::var(PLAIN_HTTP).unwrap_or_default();
    is_loopback(host) || listed.split(',').any(|plain| plain.trim() == host)
}

/// Returns true for the names and addresses of this host, with or without a port.
fn is_loopback(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[') {
        return address.split(']').next() == Some("::1");
    }
    let name = host.split(':').next().unwrap_or_default();
    let address = name.parse::<std::net::Ipv4Addr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_is_used_without_tls() {
        for (host, expected) in [
            ("localhost:5000", true),
            ("localhost", true),
            ("127.0.0.1:80", true),
            ("127.9.9.9", true),
            ("[::1]:5000", true),
            ("localhost.example.org", false),
            ("127.0.0.1.example.org", false),
            ("10.0.0.1:5000", false),
            ("[::2]", false),
            ("quay.io", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }
}
