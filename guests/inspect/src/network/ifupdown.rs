//! `/etc/network/interfaces` (interfaces(5)), of Debian before netplan and networkd, and of Alpine.

use diskfs_vfs::glob::{Case, Pattern};

use super::words::{mac, with_prefix, words};
use super::{Interface, named, signed};
use crate::files::Files;
use diskfs_etc::shell::settings;

const PATH: &str = "/etc/network/interfaces";

/// The limit on files, because files can include each other.
const MAX_FILES: usize = 256;

/// Returns the interfaces of the file and of those that it includes.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let mut found = Vec::new();
    let mut seen: Vec<String> = vec![PATH.to_owned()];
    let mut next = 0;
    while let Some(path) = seen.get(next).cloned() {
        next += 1;
        let Some(text) = files.text(&path) else {
            continue;
        };
        found.extend(signed("ifupdown", &path, parse(&text)));
        for named in sources(files, &text) {
            if !seen.contains(&named) && seen.len() < MAX_FILES {
                seen.push(named);
            }
        }
    }
    found
}

/// Returns the files that a file includes with `source` and `source-directory`.
fn sources(files: &Files<'_>, text: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (_, line) in settings(text) {
        let Some((word, path)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let path = match path.trim() {
            path if path.starts_with('/') => path.to_owned(),
            path => format!("/etc/network/{path}"),
        };
        let (dir, pattern) = match word {
            "source" => path.rsplit_once('/').unwrap_or(("/", &path)),
            "source-directory" => (path.trim_end_matches('/'), "*"),
            _ => continue,
        };
        let Ok(pattern) = Pattern::new(pattern, Case::Sensitive) else {
            continue;
        };
        let matching = files.names(dir).into_iter();
        let matching = matching.filter(|name| pattern.matches(name));
        named.extend(matching.map(|name| format!("{dir}/{name}")));
    }
    named
}

/// The lines of a stanza, before they are combined into an interface.
#[derive(Default)]
struct Stanza<'t> {
    name: &'t str,
    method: &'t str,
    is_v6: bool,
    address: Option<&'t str>,
    netmask: Option<&'t str>,
    rest: Interface,
}

impl<'t> Stanza<'t> {
    fn begin(line: &'t str) -> Self {
        let mut words = line.split_whitespace();
        let mut next = || words.next().unwrap_or_default();
        let (name, family, method) = (next(), next(), next());
        Self {
            name,
            method,
            is_v6: family == "inet6",
            ..Self::default()
        }
    }

    fn take(&mut self, option: &'t str, value: &'t str) {
        let rest = &mut self.rest;
        match option.replace('_', "-").as_str() {
            "address" => self.address = Some(value),
            "netmask" => self.netmask = Some(value),
            "gateway" => rest.add_gateway(value),
            "dns-nameservers" | "dns-nameserver" => rest.dns.extend(words(value)),
            "dns-search" | "dns-domain" => rest.search.extend(words(value)),
            "mtu" => rest.mtu_bytes = value.parse().ok(),
            "hwaddress" => rest.mac = value.split_whitespace().last().and_then(mac),
            "vlan-raw-device" => {
                rest.kind = Some("vlan".to_owned());
                rest.parent = Some(value.to_owned());
            }
            "vlan-id" => rest.vlan = value.parse().ok(),
            "bond-slaves" | "slaves" => rest.set_members("bond", value),
            "bond-master" => rest.parent = Some(value.to_owned()),
            "bridge-ports" => rest.set_members("bridge", value),
            "up" | "pre-up" | "post-up" => rest.take_command(value),
            _ => {}
        }
    }

    /// Adds the stanza to its interface: IPv4 and IPv6 have separate stanzas.
    fn end(self, found: &mut Vec<Interface>) {
        let mut interface = self.rest;
        interface.dhcp4 = self.method == "dhcp" && !self.is_v6;
        interface.dhcp6 = self.method == "dhcp" && self.is_v6;
        let address = self.address.filter(|_| self.method == "static");
        let own = address.map(|address| with_prefix(address, self.netmask));
        interface.addresses.splice(0..0, own);
        if let Some(known) = named(found, self.name) {
            known.join(interface);
        }
    }
}

impl Interface {
    fn set_members(&mut self, kind: &str, names: &str) {
        self.kind = Some(kind.to_owned());
        self.members = words(names).filter(|name| name != "none").collect();
    }

    /// Parses a command: `ip route add TO via GATEWAY`, `route add -net TO ... gw GATEWAY`, `ip
    /// addr add ADDRESS`, `ip link set ... mtu BYTES`.
    fn take_command(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let behind = |word: &str| {
            let at = words.iter().position(|found| *found == word)?;
            words.get(at + 1).copied()
        };
        match &words[..] {
            ["ip", "addr" | "address", "add", own, ..]
            | ["ip", _, "addr" | "address", "add", own, ..] => self.addresses.push((*own).into()),
            ["ip", "link", "set", ..] => {
                let mtu = behind("mtu").and_then(|it| it.parse().ok());
                self.mtu_bytes = mtu.or(self.mtu_bytes);
            }
            _ => {}
        }
        let to = match &words[..] {
            ["ip", "route", "add" | "append" | "replace", to, ..]
            | ["ip", _, "route", "add" | "append" | "replace", to, ..]
            | ["route", "add", "-net" | "-host", to, ..]
            | ["route", "add", to, ..] => Some(*to),
            _ => None,
        };
        if let Some(to) = to {
            let via = behind("via").or_else(|| behind("gw"));
            let mask = behind("netmask");
            self.add_route(&with_prefix(to, mask), via);
        }
    }

    /// Adds the settings of another stanza of the same interface.
    fn join(&mut self, other: Self) {
        self.dhcp4 |= other.dhcp4;
        self.dhcp6 |= other.dhcp6;
        self.addresses.extend(other.addresses);
        for gateway in &other.gateways {
            self.add_gateway(gateway);
        }
        self.dns.extend(other.dns);
        self.search.extend(other.search);
        self.routes.extend(other.routes);
        self.members.extend(other.members);
        self.mac = self.mac.take().or(other.mac);
        self.kind = self.kind.take().or(other.kind);
        self.mtu_bytes = self.mtu_bytes.or(other.mtu_bytes);
        self.vlan = self.vlan.or(other.vlan);
        self.parent = self.parent.take().or(other.parent);
    }
}

fn parse(text: &str) -> Vec<Interface> {
    let joined = text.replace("\\\n", " ");
    let mut found = Vec::new();
    let mut open: Option<Stanza<'_>> = None;
    for (_, line) in settings(&joined) {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let ends = match word {
            "iface" => open.replace(Stanza::begin(rest)),
            "auto" | "mapping" | "source" | "source-directory" | "rename" | "template" => {
                open.take()
            }
            _ if word.starts_with("allow-") || word.starts_with("no-") => open.take(),
            _ => {
                if let Some(stanza) = &mut open {
                    stanza.take(word, rest);
                }
                None
            }
        };
        if let Some(stanza) = ends {
            stanza.end(&mut found);
        }
    }
    if let Some(stanza) = open {
        stanza.end(&mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::guest;

    #[test]
    fn stanzas_of_one_interface_are_one() {
        let text = "auto eth0\niface eth0 inet static\n\taddress 192.0.2.7\n\tnetmask 255.255.255.0\n\tgateway 192.0.2.1\n\tdns-nameservers 192.0.2.53 \\\n   198.51.100.53\n\tup ip route add 203.0.113.0/24 via 192.0.2.9 dev eth0\niface eth0 inet6 static\n\taddress 2001:db8::7/64\n\nallow-hotplug eth1\niface eth1 inet dhcp\n  hwaddress ether 52:54:00:AA:bb:01\nauto bond0\niface bond0 inet manual\n  bond-slaves eth2 eth3\n  mtu 9000\niface eth1.7 inet dhcp\n  vlan-raw-device eth1\n";
        let found = parse(text);
        let names: Vec<_> = found.iter().filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(names, ["eth0", "eth1", "bond0", "eth1.7"]);
        assert_eq!(found[0].addresses, ["192.0.2.7/24", "2001:db8::7/64"]);
        assert_eq!(found[0].gateways, ["192.0.2.1"]);
        assert_eq!(found[0].dns, ["192.0.2.53", "198.51.100.53"]);
        assert_eq!(found[0].routes[0].via.as_deref(), Some("192.0.2.9"));
        assert_eq!(found[1].mac.as_deref(), Some("52:54:00:aa:bb:01"));
        assert!(found[1].dhcp4 && !found[1].dhcp6 && !found[0].dhcp4);
        assert_eq!(found[2].members, ["eth2", "eth3"]);
        assert_eq!(found[2].mtu_bytes, Some(9000));
        assert_eq!(found[3].parent.as_deref(), Some("eth1"));
    }

    #[test]
    fn files_that_name_each_other_end() {
        let tree = guest(&[
            (PATH, "source /etc/network/interfaces.d/*\n"),
            (
                "/etc/network/interfaces.d/a",
                "source-directory interfaces.d\nsource /etc/network/interfaces\niface eth5 inet dhcp\n",
            ),
        ]);
        let found = of(&Files::new(&tree));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "/etc/network/interfaces.d/a");
    }
}
