//! FreeBSD's `/etc/rc.conf` (rc.conf(5)).

use super::words::with_prefix;
use super::{Interface, named, signed};
use crate::files::Files;
use diskfs_etc::shell::{assigned, assignments};

const PATH: &str = "/etc/rc.conf";

/// Returns the interfaces.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let text = files.text(PATH).unwrap_or_default();
    signed("rc.conf", PATH, parse(&text))
}

fn parse(text: &str) -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    for (_, name, value) in assignments(text) {
        let Some(name) = name.strip_prefix("ifconfig_") else {
            continue;
        };
        // `ifconfig_X_name` renames an interface.
        if name.ends_with("_name") {
            continue;
        }
        let name = name.split_once("_alias").map_or(name, |(name, _)| name);
        let name = name.trim_end_matches("_ipv6");
        if let Some(interface) = named(&mut found, name) {
            apply_words(interface, &value);
        }
    }
    let routers = ["defaultrouter", "ipv6_defaultrouter"];
    if let Some(first) = found.first_mut() {
        for (_, router) in routers.iter().filter_map(|it| assigned(text, it)) {
            first.add_gateway(&router);
        }
    }
    found
}

/// Parses the words of ifconfig(8): `DHCP`, `inet 192.0.2.7 netmask 255.255.255.0`, `inet6
/// 2001:db8::7 prefixlen 64`.
fn apply_words(interface: &mut Interface, value: &str) {
    let words: Vec<&str> = value.split_whitespace().collect();
    interface.dhcp4 |= words.iter().any(|it| matches!(*it, "DHCP" | "SYNCDHCP"));
    let behind = |word: &str| {
        let at = words.iter().position(|it| *it == word)?;
        words.get(at + 1).copied()
    };
    let address = behind("inet").or_else(|| behind("inet6"));
    let mask = behind("netmask").or_else(|| behind("prefixlen"));
    interface
        .addresses
        .extend(address.map(|address| with_prefix(address, mask)));
    interface.mtu_bytes = behind("mtu")
        .and_then(|it| it.parse().ok())
        .or(interface.mtu_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_rc_conf() {
        let found = parse(
            "hostname=\"h\"\nifconfig_em0=\"inet 192.0.2.7 netmask 255.255.255.0\"\nifconfig_em0_ipv6=\"inet6 2001:db8::7 prefixlen 64\"\ndefaultrouter=\"192.0.2.1\"\nifconfig_em1=\"DHCP\"\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].addresses, ["192.0.2.7/24", "2001:db8::7/64"]);
        assert_eq!(found[0].gateways, ["192.0.2.1"]);
        assert!(found[1].dhcp4);
    }
}
