//! Gentoo's `/etc/conf.d/net` (netifrc).

use super::words::{with_prefix, words};
use super::{Interface, named, signed};
use crate::files::Files;
use diskfs_etc::shell::assignments;

const PATH: &str = "/etc/conf.d/net";

/// Returns the interfaces.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let text = files.text(PATH).unwrap_or_default();
    signed("netifrc", PATH, parse(&text))
}

fn parse(text: &str) -> Vec<Interface> {
    let joined = join_quoted_lines(text);
    let mut found: Vec<Interface> = Vec::new();
    for (_, name, value) in assignments(&joined) {
        let Some((variable, interface)) = name.split_once('_') else {
            continue;
        };
        let take: fn(&mut Interface, &str) = match variable {
            "config" => take_config,
            "routes" => take_routes,
            "dns" if interface.starts_with("servers_") => |it, value| it.dns.extend(words(value)),
            "dns" if interface.starts_with("search_") => |it, value| it.search.extend(words(value)),
            "mtu" => |it, value| it.mtu_bytes = value.parse().ok(),
            _ => continue,
        };
        let interface = match variable {
            "dns" => interface
                .split_once('_')
                .map_or(interface, |(_, name)| name),
            _ => interface,
        };
        if let Some(interface) = named(&mut found, interface) {
            take(interface, &value);
        }
    }
    found
}

/// Joins values of several lines into one line: a line that opens a quote continues until the quote
/// is closed.
fn join_quoted_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_open = false;
    for line in text.lines() {
        let is_comment = !is_open && line.trim_start().starts_with('#');
        is_open ^= !is_comment && line.bytes().filter(|byte| *byte == b'"').count() % 2 == 1;
        joined.push_str(line);
        joined.push(if is_open { ' ' } else { '\n' });
    }
    joined
}

/// Parses `dhcp`, or addresses with their netmasks: `192.0.2.7 netmask 255.255.255.0`,
/// `192.0.2.7/24`.
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

/// Parses routes: `default via 192.0.2.1`.
fn take_routes(interface: &mut Interface, value: &str) {
    let words: Vec<String> = words(value).collect();
    for three in words.windows(3) {
        if three[1] == "via" || three[1] == "gw" {
            interface.add_route(&three[0], Some(&three[2]));
        }
    }
    // A network without a gateway is on the link.
    for (at, to) in words.iter().enumerate().filter(|(_, it)| it.contains('/')) {
        if !matches!(words.get(at + 1).map(String::as_str), Some("via" | "gw")) {
            interface.add_route(to, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_interfaces() {
        let found = parse(
            "config_eth0=\"192.0.2.7 netmask 255.255.255.0 brd 192.0.2.255\"\nroutes_eth0=\"default via 192.0.2.1\"\ndns_servers_eth0=\"192.0.2.53\"\nconfig_eth1=\"dhcp\n2001:db8::7/64\"\nroutes_eth1=\"198.51.100.0/24\ndefault via 192.0.2.9\"\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].addresses, ["2001:db8::7/64"]);
        assert_eq!((found[1].routes.len(), found[1].gateways.len()), (1, 1));
        assert_eq!(found[0].addresses, ["192.0.2.7/24"]);
        assert_eq!(found[0].gateways, ["192.0.2.1"]);
        assert_eq!(found[0].dns, ["192.0.2.53"]);
        assert!(found[1].dhcp4);
    }
}
