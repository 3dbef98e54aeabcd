//! `OpenWrt`'s `/etc/config/network` (its documentation, "Network basics").

use super::words::{mac, with_prefix, words};
use super::{Interface, signed};
use crate::files::Files;
use diskfs_etc::shell::{settings, unquote};

const PATH: &str = "/etc/config/network";

/// Returns the interfaces.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let text = files.text(PATH).unwrap_or_default();
    signed("uci", PATH, parse(&text))
}

/// A section `config interface 'NAME'` that is being read.
#[derive(Default)]
struct Section {
    interface: Interface,
    netmask: Option<String>,
    addresses: Vec<String>,
}

impl Section {
    fn take(&mut self, option: &str, value: String) {
        let interface = &mut self.interface;
        match option {
            "device" | "ifname" => interface.name = Some(value),
            "type" => interface.kind = Some(value),
            "proto" => {
                interface.dhcp4 = value == "dhcp";
                interface.dhcp6 = value == "dhcpv6";
            }
            "netmask" => self.netmask = Some(value),
            "ipaddr" | "ip6addr" => self.addresses.push(value),
            "gateway" | "ip6gw" => interface.add_gateway(&value),
            "dns_search" => interface.search.extend(words(&value)),
            "dns" => interface.dns.extend(words(&value)),
            "macaddr" => interface.mac = mac(&value),
            "mtu" => interface.mtu_bytes = value.parse().ok(),
            _ => {}
        }
    }

    fn end(mut self) -> Interface {
        let mask = self.netmask.as_deref();
        let addresses = self.addresses.iter().map(|it| with_prefix(it, mask));
        self.interface.addresses = addresses.collect();
        self.interface
    }
}

fn parse(text: &str) -> Vec<Interface> {
    let mut found = Vec::new();
    let mut section: Option<Section> = None;
    for (_, line) in settings(text) {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let value = unquote(value.trim());
        match word {
            "config" => {
                found.extend(section.take().map(Section::end));
                section = (unquote(name) == "interface").then(|| Section {
                    interface: Interface::named(&value),
                    ..Section::default()
                });
            }
            "option" | "list" => section
                .iter_mut()
                .for_each(|it| it.take(name, value.clone())),
            _ => {}
        }
    }
    found.extend(section.map(Section::end));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_interfaces() {
        let found = parse(
            "config device\n\toption name 'br-lan'\n\nconfig interface 'lan'\n\toption device 'br-lan'\n\toption proto 'static'\n\toption ipaddr '192.168.1.1'\n\toption netmask '255.255.255.0'\n\nconfig interface 'wan'\n\toption proto 'dhcp'\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name.as_deref(), Some("br-lan"));
        assert_eq!(found[0].addresses, ["192.168.1.1/24"]);
        assert_eq!(found[1].name.as_deref(), Some("wan"));
        assert!(found[1].dhcp4);
    }
}
