//! systemd-networkd: `.network` and `.netdev` files (systemd.network(5), systemd.netdev(5)).

use super::words::{mac, words};
use super::{Interface, Route, signed};
use crate::files::Files;
use crate::ini::{Setting, settings};

/// The administrator's directory. The files in `/usr/lib` come with systemd, for containers and
/// similar uses.
const DIR: &str = "/etc/systemd/network";

/// Returns all interfaces that the files mention.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let mut found = Vec::new();
    for name in files.names(DIR) {
        let parse = match name.rsplit_once('.') {
            Some((_, "network")) => network,
            Some((_, "netdev")) => netdev,
            _ => continue,
        };
        let path = format!("{DIR}/{name}");
        if let Some(text) = files.text(&path) {
            found.extend(signed("systemd-networkd", &path, [parse(&text)]));
        }
    }
    found
}

fn network(text: &str) -> Interface {
    let mut interface = Interface::default();
    let mut routes: Vec<(usize, Route)> = Vec::new();
    for setting in settings(text) {
        match setting.section {
            "Match" | "Link" => take_link(&mut interface, setting),
            "Network" => apply_setting(&mut interface, setting),
            "Address" if setting.key == "Address" => {
                interface.addresses.push(setting.value.to_owned());
            }
            "Route" => take_route(&mut routes, setting),
            _ => {}
        }
    }
    for (_, route) in routes {
        interface.add_route(&route.to, route.via.as_deref());
    }
    interface
}

fn take_link(interface: &mut Interface, setting: Setting<'_>) {
    let value = setting.value;
    match (setting.section, setting.key) {
        // Further patterns are alternatives.
        ("Match", "Name") => {
            let before = interface.name.take().map(|name| format!("{name} "));
            interface.name = Some(before.unwrap_or_default() + value);
        }
        (_, "MACAddress" | "PermanentMACAddress") => interface.mac = mac(value),
        ("Link", "MTUBytes") => interface.mtu_bytes = value.parse().ok(),
        _ => {}
    }
}

fn apply_setting(interface: &mut Interface, setting: Setting<'_>) {
    let value = setting.value;
    match setting.key {
        "DHCP" => {
            let is_yes = matches!(value, "yes" | "true" | "both" | "on" | "1");
            interface.dhcp4 = is_yes || matches!(value, "ipv4" | "v4");
            interface.dhcp6 = is_yes || matches!(value, "ipv6" | "v6");
        }
        "Address" => interface.addresses.push(value.to_owned()),
        "Gateway" => interface.add_gateway(value),
        "DNS" => interface.dns.extend(words(value)),
        "Domains" => interface.search.extend(words(value)),
        "Bond" | "Bridge" => interface.parent = Some(value.to_owned()),
        "VLAN" => interface.members.push(value.to_owned()),
        _ => {}
    }
}

/// Parses a route. Without a destination it is a default route.
fn take_route(routes: &mut Vec<(usize, Route)>, setting: Setting<'_>) {
    let number = setting.section_number;
    if routes.last().is_none_or(|(last, _)| *last != number) {
        let route = Route {
            to: "default".to_owned(),
            via: None,
        };
        routes.push((number, route));
    }
    let Some((_, route)) = routes.last_mut() else {
        return;
    };
    match setting.key {
        "Destination" => setting.value.clone_into(&mut route.to),
        "Gateway" => route.via = Some(setting.value.to_owned()),
        _ => {}
    }
}

fn netdev(text: &str) -> Interface {
    let mut interface = Interface::default();
    for setting in settings(text) {
        let value = || Some(setting.value.to_owned());
        match (setting.section, setting.key) {
            ("NetDev", "Name") => interface.name = value(),
            ("NetDev", "Kind") => interface.kind = value(),
            ("NetDev", "MACAddress") => interface.mac = mac(setting.value),
            ("NetDev", "MTUBytes") => interface.mtu_bytes = setting.value.parse().ok(),
            ("VLAN", "Id") => interface.vlan = setting.value.parse().ok(),
            _ => {}
        }
    }
    interface
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_devices() {
        let text = "[Match]\nName=en*\n[Link]\nMTUBytes=1400\n[Network]\nDHCP=ipv4\nAddress=192.0.2.7/24\nGateway=192.0.2.1\nDNS=192.0.2.53 198.51.100.53\nVLAN=v7\n[Address]\nAddress=2001:db8::7/64\n[Route]\nGateway=192.0.2.2\n[Route]\nDestination=203.0.113.0/24\nGateway=192.0.2.9\n";
        let found = network(text);
        assert_eq!(found.name.as_deref(), Some("en*"));
        assert_eq!(found.addresses, ["192.0.2.7/24", "2001:db8::7/64"]);
        assert_eq!(found.gateways, ["192.0.2.1", "192.0.2.2"]);
        assert_eq!((found.routes.len(), found.dns.len()), (1, 2));
        assert!(found.dhcp4 && !found.dhcp6);
        let vlan = netdev("[NetDev]\nName=v7\nKind=vlan\n[VLAN]\nId=7\n");
        assert_eq!((vlan.kind.as_deref(), vlan.vlan), (Some("vlan"), Some(7)));
    }
}
