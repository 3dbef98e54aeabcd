//! `ifcfg-*`: shell assignments of Red Hat's scripts and SUSE's wicked (ifcfg(5)).
//!
//! Red Hat numbers the variables of further addresses (`IPADDR1`); SUSE adds any suffix
//! (`IPADDR_x`).

use std::collections::BTreeMap;

use super::words::{mac, with_prefix, words};
use super::{Interface, signed};
use crate::files::Files;
use diskfs_etc::shell::{assignments, settings};

/// The directories of Red Hat (also Amazon and other present distributions) and of SUSE.
const DIRS: [&str; 2] = ["/etc/sysconfig/network-scripts", SUSE];
const SUSE: &str = "/etc/sysconfig/network";

/// Returns all interfaces that have a file.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let mut found = Vec::new();
    for dir in DIRS {
        let names = files.names(dir);
        let named = |name: &String| name.strip_prefix("ifcfg-").map(str::to_owned);
        for name in names.iter().filter_map(named).filter(|name| is_used(name)) {
            let path = format!("{dir}/ifcfg-{name}");
            let Some(text) = files.text(&path) else {
                continue;
            };
            let mut interface = parse(&name, &text);
            for routes in ["route-", "route6-", "ifroute-"].map(|it| format!("{it}{name}")) {
                if names.binary_search(&routes).is_ok() {
                    let text = files.text(&format!("{dir}/{routes}"));
                    take_routes(&mut interface, &text.unwrap_or_default());
                }
            }
            found.extend(signed("ifcfg", &path, [interface]));
        }
        if dir == SUSE {
            let routes = files.text(&format!("{dir}/routes")).unwrap_or_default();
            take_all_routes(&mut found, &routes);
        }
    }
    found
}

/// Returns false for suffixes that the scripts ignore.
fn is_used(name: &str) -> bool {
    let leavings = [
        "~",
        ".bak",
        ".orig",
        ".rpmnew",
        ".rpmsave",
        ".rpmorig",
        ".template",
    ];
    !leavings.iter().any(|ending| name.ends_with(ending))
}

/// The assignments of a file.
type Variables<'t> = BTreeMap<&'t str, String>;

fn variables(text: &str) -> Variables<'_> {
    assignments(text)
        .map(|(_, name, value)| (name, value))
        .collect()
}

fn parse(name: &str, text: &str) -> Interface {
    let variables = variables(text);
    let value = |name: &str| {
        variables
            .get(name)
            .filter(|value| !value.is_empty())
            .cloned()
    };
    let protocol = value("BOOTPROTO").unwrap_or_default().to_ascii_lowercase();
    // Red Hat has a separate variable for DHCPv6.
    let is_suse = value("STARTMODE").is_some();
    let mut interface = Interface {
        name: Some(value("DEVICE").unwrap_or_else(|| name.to_owned())),
        mac: ["HWADDR", "MACADDR", "LLADDR"]
            .iter()
            .find_map(|it| mac(&value(it)?)),
        kind: kind(&variables),
        dhcp4: matches!(&*protocol, "dhcp" | "bootp" | "dhcp4" | "dhcp+autoip"),
        dhcp6: is_suse && matches!(&*protocol, "dhcp" | "dhcp6") || is_yes(&variables, "DHCPV6C"),
        mtu_bytes: value("MTU").and_then(|it| it.parse().ok()),
        vlan: value("VLAN_ID").and_then(|it| it.parse().ok()),
        parent: ["MASTER", "BRIDGE", "PHYSDEV", "ETHERDEVICE"]
            .iter()
            .find_map(|it| value(it).filter(|it| it != "yes")), // SUSE: `yes` marks a bridge.
        ..Interface::default()
    };
    for (name, value) in &variables {
        apply_variable(&mut interface, &variables, name, value);
    }
    interface
}

fn is_yes(variables: &Variables<'_>, name: &str) -> bool {
    let value = variables.get(name);
    value.is_some_and(|it| it.eq_ignore_ascii_case("yes"))
}

fn kind(variables: &Variables<'_>) -> Option<String> {
    let named = variables.get("TYPE").map(|kind| kind.to_ascii_lowercase());
    let is_vlan = is_yes(variables, "VLAN") || variables.contains_key("ETHERDEVICE");
    let marked = [
        ("vlan", is_vlan),
        ("bond", is_yes(variables, "BONDING_MASTER")),
        ("bridge", is_yes(variables, "BRIDGE")),
    ];
    let mut marked = marked.iter().filter(|(_, is_marked)| *is_marked);
    named
        .filter(|kind| kind != "ethernet")
        .or_else(|| marked.next().map(|(kind, _)| (*kind).to_owned()))
}

fn apply_variable(interface: &mut Interface, variables: &Variables<'_>, name: &str, value: &str) {
    if let Some(ending) = name.strip_prefix("IPADDR") {
        let beside = |before: &str| variables.get(&*format!("{before}{ending}"));
        let mask = ["PREFIXLEN", "PREFIX", "NETMASK"]
            .into_iter()
            .find_map(beside);
        let address = with_prefix(value, mask.map(String::as_str));
        interface.addresses.push(address);
        return;
    }
    match name {
        "IPV6ADDR" | "IPV6ADDR_SECONDARIES" => interface.addresses.extend(words(value)),
        "GATEWAY" | "IPV6_DEFAULTGW" => interface.add_gateway(value),
        "DOMAIN" => interface.search.extend(words(value)),
        "BONDING_SLAVES" | "BRIDGE_PORTS" => interface.members.extend(words(value)),
        _ if name.starts_with("BONDING_SLAVE") => interface.members.push(value.to_owned()),
        _ if name.starts_with("DNS") => interface.dns.push(value.to_owned()),
        _ => {}
    }
}

/// Parses lines in the format of ip-route(8) (`203.0.113.0/24 via 192.0.2.9`) or of SUSE
/// (`203.0.113.0/24 192.0.2.9 - eth0`), or variables (`ADDRESS0`, `NETMASK0`, `GATEWAY0`).
fn take_routes(interface: &mut Interface, text: &str) {
    let variables = variables(text);
    for (name, to) in &variables {
        if let Some(ending) = name.strip_prefix("ADDRESS") {
            let beside = |before: &str| variables.get(&*format!("{before}{ending}"));
            let mask = beside("NETMASK").map(String::as_str);
            let via = beside("GATEWAY").map(String::as_str);
            interface.add_route(&with_prefix(to, mask), via);
        }
    }
    for (_, line) in settings(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            [to, "via", via, ..] => interface.add_route(to, Some(via)),
            // A route without a gateway is on the link.
            [to, "dev" | "-", ..] => interface.add_route(to, None),
            [to, via, ..] if !to.contains('=') => interface.add_route(to, Some(via)),
            _ => {}
        }
    }
}

/// Parses SUSE's `routes`: destination, gateway, netmask and interface, with `-` for a missing
/// field. Routes without an interface are added to the first interface that has an address.
fn take_all_routes(found: &mut [Interface], text: &str) {
    for (_, line) in settings(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [to, via, rest @ ..] = &words[..] else {
            continue;
        };
        let mask = rest.first().copied().filter(|mask| *mask != "-");
        let device = rest.get(1).copied().filter(|device| *device != "-");
        let is_meant = |it: &&mut Interface| match device {
            Some(device) => it.name.as_deref() == Some(device),
            None => !it.addresses.is_empty() && !it.is_loopback(),
        };
        if let Some(interface) = found.iter_mut().find(is_meant) {
            interface.add_route(&with_prefix(to, mask), Some(via));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::guest;

    #[test]
    fn red_hat() {
        let dir = "/etc/sysconfig/network-scripts";
        let tree = guest(&[
            (
                &format!("{dir}/ifcfg-eth0"),
                "TYPE=Ethernet\nBOOTPROTO=none\nDEVICE=eth0\nHWADDR=52:54:00:00:00:0A\nIPADDR=192.0.2.7\nPREFIX=24\nIPADDR1=192.0.2.8\nNETMASK1=255.255.255.0\nGATEWAY=192.0.2.1\nDNS1=192.0.2.53\nDNS2=198.51.100.53\nDOMAIN=\"a.example b.example\"\nIPV6ADDR=2001:db8::7/64\nDHCPV6C=yes\n",
            ),
            (
                &format!("{dir}/route-eth0"),
                "ADDRESS0=203.0.113.0\nNETMASK0=255.255.255.0\nGATEWAY0=192.0.2.9\n198.51.100.0/24 via 192.0.2.10 dev eth0\n",
            ),
            (&format!("{dir}/ifcfg-eth0.bak"), "DEVICE=eth9\n"),
            (
                &format!("{dir}/ifcfg-bond0.7"),
                "VLAN=yes\nVLAN_ID=7\nPHYSDEV=bond0\nBOOTPROTO=dhcp\n",
            ),
        ]);
        let found = of(&Files::new(&tree));
        let [vlan, eth0] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((vlan.kind.as_deref(), vlan.vlan), (Some("vlan"), Some(7)));
        assert!(vlan.dhcp4 && !vlan.dhcp6 && eth0.dhcp6 && !eth0.dhcp4);
        assert_eq!(
            eth0.addresses,
            ["192.0.2.7/24", "192.0.2.8/24", "2001:db8::7/64"]
        );
        assert_eq!(eth0.search, ["a.example", "b.example"]);
        assert_eq!(eth0.dns.len(), 2);
        let routes: Vec<_> = eth0.routes.iter().map(|it| &*it.to).collect();
        assert_eq!(routes, ["203.0.113.0/24", "198.51.100.0/24"]);
    }

    #[test]
    fn suse() {
        let dir = "/etc/sysconfig/network";
        let tree = guest(&[
            (
                &format!("{dir}/ifcfg-eth0"),
                "BOOTPROTO='static'\nSTARTMODE='auto'\nIPADDR='192.0.2.7/24'\nIPADDR_1='192.0.2.8'\nPREFIXLEN_1='24'\n",
            ),
            (&format!("{dir}/ifroute-eth0"), "default 192.0.2.1 - eth0\n"),
            (
                &format!("{dir}/ifcfg-br0"),
                "BOOTPROTO='dhcp'\nSTARTMODE='auto'\nBRIDGE='yes'\nBRIDGE_PORTS='eth0 eth1'\n",
            ),
        ]);
        let found = of(&Files::new(&tree));
        assert_eq!(found[0].members, ["eth0", "eth1"]);
        assert!(found[0].dhcp4 && found[0].dhcp6);
        assert_eq!(found[0].kind.as_deref(), Some("bridge"));
        assert_eq!(found[0].parent, None);
        assert_eq!(found[1].addresses, ["192.0.2.7/24", "192.0.2.8/24"]);
        assert_eq!(found[1].gateways, ["192.0.2.1"]);
    }
}
