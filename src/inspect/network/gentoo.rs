//! Gentoo's `/etc/conf.d/net` (netifrc).

use super::words::{with_prefix, words};
use super::{Interface, named, signed};
use crate::inspect::files::Files;
use crate::shell::assignments;

const PATH: &str = "/etc/conf.d/net";

/// Its interfaces.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let text = files.text(PATH).unwrap_or_default();
    signed("netifrc", PATH, parse(&text))
}

fn parse(text: &str) -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    for (_, name, value) in assignments(text) {
        let Some((variable, interface)) = name.split_once('_') else {
            continue;
        };
        let take: fn(&mut Interface, &str) = match variable {
            "config" => take_config,
            "routes" => take_routes,
            "dns" if interface.starts_with("servers_") => |it, value| it.dns.extend(words(value)),
            "mtu" => |it, value| it.mtu_bytes = value.parse().ok(),
            _ => continue,
        };
        let interface = interface.trim_start_matches("servers_");
        if let Some(interface) = named(&mut found, interface) {
            take(interface, &value);
        }
    }
    found
}

/// `dhcp`, or addresses with their netmasks: `192.0.2.7 netmask 255.255.255.0`, `192.0.2.7/24`.
fn take_config(interface: &mut Interface, value: &str) {
    let words: Vec<String> = words(value).collect();
    for (at, word) in words.iter().enumerate() {
        let after = |n: usize| words.get(at + n).map(String::as_str);
        match word.as_str() {
            "dhcp" => interface.dhcp4 = true,
            "dhcpv6" => interface.dhcp6 = true,
            address if address.contains(['.', ':']) => {
                let is_of_other =
                    at > 0 && matches!(&*words[at - 1], "netmask" | "brd" | "broadcast");
                if !is_of_other {
                    let mask = after(2).filter(|_| after(1) == Some("netmask"));
                    interface.addresses.push(with_prefix(address, mask));
                }
            }
            _ => {}
        }
    }
}

/// `default via 192.0.2.1`.
fn take_routes(interface: &mut Interface, value: &str) {
    let words: Vec<String> = words(value).collect();
    for three in words.windows(3) {
        if three[1] == "via" || three[1] == "gw" {
            interface.add_route(&three[0], Some(&three[2]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_interfaces() {
        let found = parse(
            "config_eth0=\"192.0.2.7 netmask 255.255.255.0 brd 192.0.2.255\"\nroutes_eth0=\"default via 192.0.2.1\"\ndns_servers_eth0=\"192.0.2.53\"\nconfig_eth1=\"dhcp\"\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].addresses, ["192.0.2.7/24"]);
        assert_eq!(found[0].gateways, ["192.0.2.1"]);
        assert_eq!(found[0].dns, ["192.0.2.53"]);
        assert!(found[1].dhcp4);
    }
}
