//! The network configuration for cloud-init in files of the guest (its documentation, "Network
//! configuration", versions 1 and 2).

use serde_json::Value;

use super::words::{mac, with_prefix};
use super::{Interface, netplan, signed};
use crate::files::{Files, has_extension};
use crate::yaml;

/// The seeds that are in the image itself.
const SEEDS: [&str; 2] = [
    "/var/lib/cloud/seed/nocloud/network-config",
    "/var/lib/cloud/seed/nocloud-net/network-config",
];

/// The settings, of which `network` is one.
const DIR: &str = "/etc/cloud/cloud.cfg.d";

/// Returns the interfaces of all files.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let mut found = Vec::new();
    for path in SEEDS {
        if let Some(document) = yaml::document(files, path) {
            let network = document.get("network").unwrap_or(&document);
            found.extend(signed("cloud-init", path, interfaces(network)));
        }
    }
    for name in files
        .names(DIR)
        .iter()
        .filter(|name| has_extension(name, "cfg"))
        .take(yaml::MAX_FILES)
    {
        let path = format!("{DIR}/{name}");
        // Most of these files are about other settings, and a YAML error in those is not a problem
        // here.
        let text = files.text(&path).filter(|text| text.contains("network"));
        let document = text.and_then(|text| yaml::parse(&text).ok());
        if let Some(network) = document.as_ref().and_then(|it| it.get("network")) {
            found.extend(signed("cloud-init", &path, interfaces(network)));
        }
    }
    found
}

fn interfaces(network: &Value) -> Vec<Interface> {
    if let Some(1) = network.get("version").and_then(Value::as_u64) {
        version_1(network)
    } else {
        let found = netplan::interfaces(network);
        found.into_iter().map(|(_, interface)| interface).collect()
    }
}

fn version_1(network: &Value) -> Vec<Interface> {
    let entries = yaml::sequence(network, "config");
    let mut found: Vec<Interface> = entries.iter().filter_map(interface).collect();
    let servers = entries
        .iter()
        .filter(|entry| yaml::text(entry, "type").as_deref() == Some("nameserver"));
    for server in servers {
        for interface in &mut found {
            interface.dns.extend(yaml::texts(server, "address"));
            interface.search.extend(yaml::texts(server, "search"));
        }
    }
    found
}

fn interface(entry: &Value) -> Option<Interface> {
    let kind = yaml::text(entry, "type")?;
    let kind = match kind.as_str() {
        "physical" => None,
        "bond" | "bridge" | "vlan" | "infiniband" | "loopback" => Some(kind),
        _ => return None,
    };
    let mut interface = Interface {
        name: yaml::text(entry, "name"),
        mac: yaml::text(entry, "mac_address").as_deref().and_then(mac),
        kind,
        mtu_bytes: yaml::text(entry, "mtu").and_then(|it| it.parse().ok()),
        vlan: yaml::text(entry, "vlan_id").and_then(|it| it.parse().ok()),
        parent: yaml::text(entry, "vlan_link"),
        members: [
            yaml::texts(entry, "bond_interfaces"),
            yaml::texts(entry, "bridge_interfaces"),
        ]
        .concat(),
        ..Interface::default()
    };
    for subnet in yaml::sequence(entry, "subnets") {
        take_subnet(&mut interface, subnet);
    }
    Some(interface)
}

fn take_subnet(interface: &mut Interface, subnet: &Value) {
    match yaml::text(subnet, "type").as_deref() {
        Some("dhcp" | "dhcp4") => interface.dhcp4 = true,
        Some("dhcp6" | "ipv6_dhcpv6-stateful" | "ipv6_dhcpv6-stateless") => interface.dhcp6 = true,
        _ => {}
    }
    if let Some(address) = yaml::text(subnet, "address") {
        let mask = yaml::text(subnet, "netmask");
        interface
            .addresses
            .push(with_prefix(&address, mask.as_deref()));
    }
    if let Some(gateway) = yaml::text(subnet, "gateway") {
        interface.add_gateway(&gateway);
    }
    interface.dns.extend(yaml::texts(subnet, "dns_nameservers"));
    interface.search.extend(yaml::texts(subnet, "dns_search"));
    for route in yaml::sequence(subnet, "routes") {
        let mask = yaml::text(route, "netmask");
        if let Some(to) = yaml::text(route, "network").or_else(|| yaml::text(route, "destination"))
        {
            let via = yaml::text(route, "gateway");
            interface.add_route(&with_prefix(&to, mask.as_deref()), via.as_deref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::guest;

    #[test]
    fn both_versions() {
        let tree = guest(&[
            (
                SEEDS[0],
                "version: 1\nconfig:\n- type: physical\n  name: eth0\n  mac_address: '52:54:00:00:00:0A'\n  subnets:\n  - {type: static, address: 192.0.2.7, netmask: 255.255.255.0, gateway: 192.0.2.1}\n  - type: dhcp6\n- type: nameserver\n  address: [192.0.2.53]\n",
            ),
            (
                "/etc/cloud/cloud.cfg.d/99-network.cfg",
                "network: {version: 2, ethernets: {eth1: {dhcp4: true}}}\n",
            ),
            (
                "/etc/cloud/cloud.cfg.d/99-off.cfg",
                "network: {config: disabled}\n",
            ),
        ]);
        let files = Files::new(&tree);
        let found = of(&files);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].addresses, ["192.0.2.7/24"]);
        assert_eq!(found[0].dns, ["192.0.2.53"]);
        assert!(found[0].dhcp6 && found[1].dhcp4);
        assert_eq!(files.finish().1, []);
    }
}
