//! `NetworkManager`'s keyfiles (nm-settings-keyfile(5)).

use super::words::{mac, words};
use super::{Interface, signed};
use crate::files::Files;
use crate::ini::{Setting, settings};

/// The directories of connections.
const DIRS: [&str; 2] = [
    "/etc/NetworkManager/system-connections",
    "/usr/lib/NetworkManager/system-connections",
];

/// Returns the interfaces of all connections.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let mut found = Vec::new();
    for dir in DIRS {
        for name in files.names(dir) {
            // Backup files of editors are ignored.
            if name.starts_with('.') || name.ends_with('~') {
                continue;
            }
            let path = format!("{dir}/{name}");
            if let Some(text) = files.text(&path) {
                found.extend(signed("NetworkManager", &path, parse(&text)));
            }
        }
    }
    found
}

fn parse(text: &str) -> Option<Interface> {
    let mut interface = Interface::default();
    let mut is_connection = false;
    for setting in settings(text) {
        is_connection |= setting.section == "connection";
        match setting.section {
            "ipv4" | "ipv6" => take_addresses(&mut interface, setting),
            _ => apply_setting(&mut interface, setting),
        }
    }
    is_connection.then_some(interface)
}

fn apply_setting(interface: &mut Interface, setting: Setting<'_>) {
    let value = setting.value;
    match (setting.section, setting.key) {
        ("connection", "interface-name") => interface.name = Some(value.to_owned()),
        ("connection", "type") => {
            let plain = ["ethernet", "802-3-ethernet"];
            interface.kind = Some(value.to_owned()).filter(|kind| !plain.contains(&&**kind));
        }
        ("connection", "master" | "controller") | ("vlan", "parent") => {
            interface.parent = Some(value.to_owned());
        }
        ("vlan", "id") => interface.vlan = value.parse().ok(),
        (_, "mac-address" | "cloned-mac-address") => {
            interface.mac = mac(value).or(interface.mac.take());
        }
        (_, "mtu") => interface.mtu_bytes = value.parse().ok(),
        _ => {}
    }
}

/// Parses the sections `[ipv4]` and `[ipv6]`.
fn take_addresses(interface: &mut Interface, setting: Setting<'_>) {
    let Setting {
        section,
        key,
        value,
        ..
    } = setting;
    match key {
        "method" if section == "ipv4" => interface.dhcp4 = value == "auto",
        // With `auto`, DHCP is used if routers advertise it.
        "method" => interface.dhcp6 = matches!(value, "auto" | "dhcp"),
        "gateway" => interface.add_gateway(value),
        "dns" => interface.dns.extend(words(value)),
        "dns-search" => interface.search.extend(words(value)),
        _ if is_numbered(key, "address") || key == "addresses" => take_address(interface, value),
        _ if is_numbered(key, "route") => {
            let mut parts = value.split(',').map(str::trim);
            let to = parts.next().unwrap_or_default();
            interface.add_route(to, parts.next().filter(|via| !via.is_empty()));
        }
        _ => {}
    }
}

/// Parses `192.0.2.7/24,192.0.2.1`; the gateway is optional.
fn take_address(interface: &mut Interface, value: &str) {
    let mut parts = value.split([',', ';']).map(str::trim);
    let address = parts.next().filter(|address| !address.is_empty());
    interface.addresses.extend(address.map(str::to_owned));
    let gateway = parts.next().unwrap_or_default();
    interface.add_gateway(gateway);
}

/// Returns true for numbered keys: `address1`, `route12`.
fn is_numbered(key: &str, name: &str) -> bool {
    let number = key.strip_prefix(name);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection() {
        let text = "[connection]\nid=x\ntype=ethernet\ninterface-name=ens3\n\n[ethernet]\nmac-address=52:54:00:00:00:0A\nmtu=1400\n\n[ipv4]\nmethod=manual\naddress1=192.0.2.7/24,192.0.2.1\naddress2=192.0.2.8/24\ndns=192.0.2.53;198.51.100.53;\ndns-search=a.example;\nroute1=203.0.113.0/24,192.0.2.9\nroute1_options=mtu=1000\n\n[ipv6]\nmethod=auto\n";
        let found = parse(text).unwrap();
        assert_eq!(found.name.as_deref(), Some("ens3"));
        assert_eq!(found.mac.as_deref(), Some("52:54:00:00:00:0a"));
        assert_eq!(found.addresses, ["192.0.2.7/24", "192.0.2.8/24"]);
        assert_eq!(found.gateways, ["192.0.2.1"]);
        assert_eq!(found.dns, ["192.0.2.53", "198.51.100.53"]);
        assert_eq!((found.routes.len(), found.mtu_bytes), (1, Some(1400)));
        assert!(!found.dhcp4 && found.dhcp6 && found.kind.is_none());
        assert_eq!(parse("[other]\nx=1\n"), None);
    }
}
