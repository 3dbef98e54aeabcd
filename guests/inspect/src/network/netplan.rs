//! netplan: YAML files in `/lib/netplan` and `/etc/netplan`, which form one document (netplan(5)).

use std::collections::HashMap;

use serde_json::Value;

use super::words::mac;
use super::{Interface, Route};
use crate::files::{Files, has_extension};
use crate::yaml;

/// The directories. A file in a later one replaces a file of the same name in an earlier one.
const DIRS: [&str; 2] = ["/lib/netplan", "/etc/netplan"];

/// The sections of interfaces, and the kind of interface in each.
const SORTS: [(&str, Option<&str>); 11] = [
    ("ethernets", None),
    ("wifis", Some("wifi")),
    ("modems", Some("modem")),
    ("bonds", Some("bond")),
    ("bridges", Some("bridge")),
    ("vlans", Some("vlan")),
    ("tunnels", Some("tunnel")),
    ("vrfs", Some("vrf")),
    ("dummy-devices", Some("dummy")),
    ("virtual-ethernets", Some("veth")),
    ("nm-devices", None),
];

/// Returns the interfaces of all files together. The source of an interface is the last file that
/// mentions it.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let mut whole = Value::Null;
    let mut speakers = HashMap::new();
    for path in paths(files).into_iter().take(yaml::MAX_FILES) {
        let Some(document) = yaml::document(files, &path) else {
            continue;
        };
        let Some(network) = document.get("network") else {
            continue;
        };
        let ids = SORTS
            .iter()
            .flat_map(|(sort, _)| yaml::mapping(network, sort));
        speakers.extend(ids.map(|(id, _)| (id.to_owned(), path.clone())));
        merge(&mut whole, network.clone());
    }
    let mut found = interfaces(&whole);
    for (id, interface) in &mut found {
        interface.file = speakers.get(id).cloned().unwrap_or_default();
        interface.configured_by = "netplan";
    }
    found.into_iter().map(|(_, interface)| interface).collect()
}

/// Returns the files in the order of precedence: by name, whatever their directory is.
fn paths(files: &Files<'_>) -> Vec<String> {
    let mut paths: Vec<(String, String)> = Vec::new();
    for dir in DIRS {
        for name in files.names(dir) {
            if has_extension(&name, "yaml") {
                paths.retain(|(known, _)| *known != name);
                let path = format!("{dir}/{name}");
                paths.push((name, path));
            }
        }
    }
    paths.sort();
    paths.into_iter().map(|(_, path)| path).collect()
}

/// Merges a document into another: mappings are merged, sequences are appended, and other values
/// are replaced. The depth is bounded by the YAML reader.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

/// Returns the interfaces of a document of version 2, which cloud-init also uses, by their names in
/// it.
pub(super) fn interfaces(network: &Value) -> Vec<(String, Interface)> {
    let of_sort = |(sort, kind): (&str, Option<&str>)| -> Vec<(String, Interface)> {
        let all = yaml::mapping(network, sort);
        all.map(|(id, settings)| (id.to_owned(), interface(id, kind, settings)))
            .collect()
    };
    let mut found: Vec<_> = SORTS.into_iter().flat_map(of_sort).collect();
    // Only the bond or bridge lists its members, not the reverse.
    let parents: HashMap<String, String> = found
        .iter()
        .flat_map(|(id, it)| it.members.iter().map(|member| (member.clone(), id.clone())))
        .collect();
    for (id, interface) in &mut found {
        let parent = parents.get(id).cloned();
        interface.parent = parent.or(interface.parent.take());
    }
    found
}

fn interface(id: &str, kind: Option<&str>, settings: &Value) -> Interface {
    let none = Value::Null;
    let matching = settings.get("match").unwrap_or(&none);
    let servers = settings.get("nameservers").unwrap_or(&none);
    let name = yaml::text(settings, "set-name")
        .or_else(|| yaml::text(matching, "name"))
        .or_else(|| matching.is_null().then(|| id.to_owned()));
    let hardware =
        yaml::text(matching, "macaddress").or_else(|| yaml::text(settings, "macaddress"));
    let mut interface = Interface {
        name,
        mac: hardware.as_deref().and_then(mac),
        kind: kind.map(str::to_owned),
        dhcp4: yaml::is_true(settings, "dhcp4"),
        dhcp6: yaml::is_true(settings, "dhcp6"),
        addresses: addresses(settings),
        dns: yaml::texts(servers, "addresses"),
        search: yaml::texts(servers, "search"),
        mtu_bytes: number(settings, "mtu"),
        vlan: number(settings, "id"),
        parent: yaml::text(settings, "link"),
        members: yaml::texts(settings, "interfaces"),
        ..Interface::default()
    };
    for key in ["gateway4", "gateway6"] {
        if let Some(gateway) = yaml::text(settings, key) {
            interface.add_gateway(&gateway);
        }
    }
    for route in yaml::sequence(settings, "routes") {
        let via = yaml::text(route, "via");
        match (yaml::text(route, "to"), via) {
            (Some(to), Some(via)) => interface.add_route(&to, Some(&via)),
            (Some(to), None) => interface.routes.push(Route { to, via: None }),
            _ => {}
        }
    }
    interface
}

/// Returns the addresses: texts, or mappings with the address as the only key and its options as
/// the value.
fn addresses(settings: &Value) -> Vec<String> {
    let address = |value: &Value| match value {
        Value::Object(with_options) => with_options.keys().next().cloned(),
        value => yaml::scalar(value),
    };
    let all = yaml::sequence(settings, "addresses").iter();
    all.filter_map(address).collect()
}

fn number<T: std::str::FromStr>(settings: &Value, key: &str) -> Option<T> {
    yaml::text(settings, key)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::guest;

    #[test]
    fn files_are_one_document() {
        let tree = guest(&[
            (
                "/etc/netplan/50-cloud-init.yaml",
                "network:\n  version: 2\n  ethernets:\n    id0:\n      match: {macaddress: '52:54:00:12:34:56'}\n      set-name: eth0\n      dhcp4: true\n      addresses: [192.0.2.7/24]\n",
            ),
            (
                "/etc/netplan/90-mine.yaml",
                "network:\n  ethernets:\n    id0:\n      dhcp4: no\n      addresses: [{'2001:db8::7/64': {label: x}}]\n      routes: [{to: default, via: 192.0.2.1}, {to: 203.0.113.0/24, via: 192.0.2.9}]\n      nameservers: {addresses: [192.0.2.53], search: [a.example]}\n    eno1: {}\n  bonds:\n    bond0: {interfaces: [eno1], mtu: 9000}\n  vlans:\n    v7: {id: 7, link: bond0}\n",
            ),
            ("/etc/netplan/no.yml", "nonsense: ["),
        ]);
        let files = Files::new(&tree);
        let found = of(&files);
        let names: Vec<_> = found.iter().filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(names, ["eno1", "eth0", "bond0", "v7"]);
        let eth0 = &found[1];
        assert_eq!(eth0.addresses, ["192.0.2.7/24", "2001:db8::7/64"]);
        assert!(!eth0.dhcp4);
        assert_eq!(eth0.mac.as_deref(), Some("52:54:00:12:34:56"));
        assert_eq!(eth0.gateways, ["192.0.2.1"]);
        assert_eq!(
            (eth0.routes.len(), &eth0.dns[..]),
            (1, &["192.0.2.53".to_owned()][..])
        );
        assert_eq!(eth0.file, "/etc/netplan/90-mine.yaml");
        assert_eq!(found[0].parent.as_deref(), Some("bond0"));
        assert_eq!(
            (found[3].vlan, found[3].parent.as_deref()),
            (Some(7), Some("bond0"))
        );
        assert_eq!(files.finish().1, []);
    }

    #[test]
    fn a_broken_file_costs_itself() {
        let tree = guest(&[
            ("/etc/netplan/1.yaml", "network: [\n"),
            (
                "/etc/netplan/2.yaml",
                "network:\n  ethernets:\n    e: {dhcp6: true}\n",
            ),
        ]);
        let files = Files::new(&tree);
        let found = of(&files);
        assert!(found.len() == 1 && found[0].dhcp6);
        assert_eq!(files.finish().1.len(), 1);
    }
}
