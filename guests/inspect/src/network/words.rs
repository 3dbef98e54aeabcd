//! Parsing of addresses in configuration files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns an address with its prefix length, which the file gives within the address, or
/// separately as a number or a netmask (`255.255.255.0`).
pub(crate) fn with_prefix(address: &str, netmask_or_prefix: Option<&str>) -> String {
    match netmask_or_prefix.and_then(prefix_len) {
        Some(len) if !address.contains('/') => format!("{address}/{len}"),
        _ => address.to_owned(),
    }
}

/// Returns the prefix length of a number or a netmask.
fn prefix_len(text: &str) -> Option<u32> {
    if let Ok(len) = text.parse::<u32>() {
        return Some(len).filter(|len| *len <= 128);
    }
    // A netmask has no one bits after its first zero bit.
    let ones = match text.parse().ok()? {
        IpAddr::V4(mask) => prefix_of(u128::from(Ipv4Addr::to_bits(mask)) << 96)?,
        IpAddr::V6(mask) => prefix_of(Ipv6Addr::to_bits(mask))?,
    };
    Some(ones)
}

fn prefix_of(mask: u128) -> Option<u32> {
    let ones = mask.leading_ones();
    let rest = mask.checked_shl(ones).unwrap_or(0);
    (rest == 0).then_some(ones)
}

/// Returns a MAC address in lower case with colons; `None` for another word, such as `preserve`.
pub(super) fn mac(text: &str) -> Option<String> {
    let text = text.trim().replace('-', ":").to_ascii_lowercase();
    let bytes: Vec<&str> = text.split(':').collect();
    let is_byte = |byte: &&str| byte.len() == 2 && byte.bytes().all(|b| b.is_ascii_hexdigit());
    // Ethernet addresses have 6 bytes, InfiniBand addresses 20.
    let is_mac = matches!(bytes.len(), 6 | 8 | 20) && bytes.iter().all(is_byte);
    is_mac.then_some(text)
}

/// Returns the words of a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let separators = |c: char| c.is_whitespace() || matches!(c, ',' | ';');
    let words = text.split(separators).filter(|word| !word.is_empty());
    words.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netmasks_are_prefixes() {
        for (address, mask, expected) in [
            ("10.0.0.1", Some("255.255.255.0"), "10.0.0.1/24"),
            ("10.0.0.1", Some("24"), "10.0.0.1/24"),
            ("10.0.0.1/8", Some("24"), "10.0.0.1/8"),
            ("10.0.0.1", Some("0.0.0.0"), "10.0.0.1/0"),
            ("10.0.0.1", Some("255.0.255.0"), "10.0.0.1"),
            ("10.0.0.1", Some("255.255.255.255"), "10.0.0.1/32"),
            ("fe80::1", Some("ffff:ffff::"), "fe80::1/32"),
            ("fe80::1", Some("129"), "fe80::1"),
            ("10.0.0.1", None, "10.0.0.1"),
        ] {
            assert_eq!(with_prefix(address, mask), expected, "{mask:?}");
        }
    }

    #[test]
    fn hardware_addresses_have_one_form() {
        assert_eq!(mac("52-54-00-AB-cd-01").unwrap(), "52:54:00:ab:cd:01");
        for none in ["preserve", "52:54:00:ab:cd", "52:54:00:ab:cd:zz", ""] {
            assert_eq!(mac(none), None);
        }
    }
}
