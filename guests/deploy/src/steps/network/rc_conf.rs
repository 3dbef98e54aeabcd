//! The stack of FreeBSD: `/etc/rc.conf` (rc.conf(5)).

use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::bond::BondOption;
use super::files::{Files, with_block, without_block};
use super::links::{self, CheckResult, Link, LinkKind, Setup, joined};
use super::resolver;
use super::settings::{BondMode, Route};
use diskfs_disk::Result;

const PATH: &str = "/etc/rc.conf";

/// The prefixes of variables for interfaces and routes.
const OLD: [&str; 10] = [
    "ifconfig_",
    "defaultrouter=",
    "ipv6_defaultrouter=",
    "static_routes=",
    "ipv6_static_routes=",
    "route_",
    "ipv6_route_",
    "cloned_interfaces=",
    "vlans_",
    "create_args_",
];

/// Writes the variables after the others, and `/etc/resolv.conf`.
pub(super) fn render(guest: &mut Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    let before = guest.stage.text(PATH)?.unwrap_or_default();
    let others = if setup.is_clean {
        without_old(&before)
    } else {
        before
    };
    let mut lines = Vec::new();
    let mut bonds = Vec::new();
    for link in &setup.links {
        lines.extend(interface(link, setup).map_err(|reason| guest.invalid(reason))?);
        if matches!(link.kind, LinkKind::Bond { .. }) {
            // The name at creation determines the kind of the interface.
            let made = format!("lagg{}", bonds.len());
            if made != link.name {
                lines.push(format!("ifconfig_{made}_name=\"{}\"", link.name));
            }
            bonds.push(made);
        }
        if link.ip.dhcp6 {
            guest.note(format!(
                "{}: FreeBSD includes no DHCPv6 client; dhcp6 has no effect until one is installed",
                link.name
            ));
        }
    }
    if !bonds.is_empty() {
        lines.insert(0, format!("cloned_interfaces=\"{}\"", joined(bonds, " ")));
    }
    lines.extend(routes(&setup.links));
    files.edit(PATH, with_block(&others, &of_lines(lines)));
    resolver::write(guest, setup, files)
}

fn without_old(text: &str) -> String {
    let keep =
        |line: &&str| !OLD.iter().any(|old| line.trim_start().starts_with(old)) || is_lo(line);
    without_block(text)
        .split_inclusive('\n')
        .filter(keep)
        .collect()
}

fn is_lo(line: &str) -> bool {
    line.trim_start().starts_with("ifconfig_lo0")
}

fn interface(link: &Link, setup: &Setup) -> CheckResult<Vec<String>> {
    let ip = &link.ip;
    let name = link.name.replace(['.', '-'], "_");
    let mut lines = Vec::new();
    let on: Vec<&Link> = super::links::vlans_on(&setup.links, &link.name).collect();
    if !on.is_empty() {
        let names = joined(on.iter().map(|it| &it.name), " ");
        lines.push(format!("vlans_{name}=\"{names}\""));
    }
    if let LinkKind::Vlan { id, .. } = link.kind {
        lines.push(format!("create_args_{name}=\"vlan {id}\""));
    }
    let mut words = hardware(link)?;
    words.extend(ip.mtu.map(|mtu| format!("mtu {mtu}")));
    let mut own = ip.v4();
    if ip.dhcp4 {
        words.push("DHCP".to_owned());
    } else if let Some(first) = own.next() {
        words.insert(
            0,
            format!("inet {} netmask {}", first.address, first.mask_v4()),
        );
    } else {
        words.push("up".to_owned());
    }
    if ip.standby {
        words.push("NOAUTO".to_owned());
    }
    lines.push(format!("ifconfig_{name}=\"{}\"", words.join(" ")));
    let mut aliases: Vec<String> = own
        .map(|it| format!("inet {} netmask {}", it.address, it.mask_v4()))
        .collect();
    let mut own = ip
        .v6()
        .map(|it| format!("inet6 {} prefixlen {}", it.address, it.bits()));
    let accepts = ip.accept_ra == Some(true);
    match own.next() {
        Some(first) => {
            let accept = if accepts { " accept_rtadv" } else { "" };
            lines.push(format!("ifconfig_{name}_ipv6=\"{first}{accept}\""));
        }
        None if accepts => lines.push(format!("ifconfig_{name}_ipv6=\"inet6 accept_rtadv\"")),
        None => {}
    }
    aliases.extend(own);
    for (alias, number) in aliases.iter().zip(0_usize..) {
        lines.push(format!("ifconfig_{name}_alias{number}=\"{alias}\""));
    }
    Ok(lines)
}

fn hardware(link: &Link) -> CheckResult<Vec<String>> {
    let LinkKind::Bond { members, mode, .. } = &link.kind else {
        return Ok(Vec::new());
    };
    let protocol = match mode {
        BondMode::BalanceRr => "roundrobin",
        BondMode::ActiveBackup => "failover",
        BondMode::BalanceXor => "loadbalance",
        BondMode::Broadcast => "broadcast",
        BondMode::Lacp => "lacp",
        BondMode::BalanceTlb | BondMode::BalanceAlb => {
            return Err(format!(
                "{}: the mode {} is not supported for FreeBSD",
                link.name,
                mode.name()
            ));
        }
    };
    let mut words = vec![format!("laggproto {protocol}")];
    words.extend(members.iter().map(|it| format!("laggport {it}")));
    words.extend(links::options(link).iter().filter_map(of_lagg));
    Ok(words)
}

/// Returns the option in the syntax of ifconfig(8) for lagg(4).
pub(super) fn of_lagg(option: &BondOption) -> Option<String> {
    match (option.name, &*option.value) {
        ("lacp_rate", "fast") => Some("lacp_fast_timeout".to_owned()),
        ("lacp_rate", _) => Some("-lacp_fast_timeout".to_owned()),
        ("xmit_hash_policy", "layer2") => Some("lagghash l2".to_owned()),
        ("xmit_hash_policy", "layer2+3") => Some("lagghash l2,l3".to_owned()),
        ("xmit_hash_policy", "layer3+4") => Some("lagghash l3,l4".to_owned()),
        _ => None,
    }
}

/// Returns the variables of all routes: the list of their names, and each route.
fn routes(links: &[Link]) -> Vec<String> {
    let mut lines = Vec::new();
    for (is_v4, before) in [(true, ""), (false, "ipv6_")] {
        let mut named: Vec<(String, String)> = Vec::new();
        for link in links {
            let is_of = |route: &&Route| route.to.address.is_ipv4() == is_v4;
            for route in link.ip.routes_with_links().iter().filter(is_of) {
                named.push((format!("diskfs{}", named.len()), words(route, &link.name)));
            }
            let Some(gateway) = link.ip.gateways().find(|it| it.is_ipv4() == is_v4) else {
                continue;
            };
            if link.ip.gateway_on_link {
                // `defaultrouter` would be set before the route to the gateway.
                let family = if is_v4 { "" } else { "-inet6 " };
                let words = format!("{family}default {gateway}");
                named.push((format!("diskfs{}", named.len()), words));
            } else {
                lines.push(format!("{before}defaultrouter=\"{gateway}\""));
            }
        }
        if !named.is_empty() {
            let names = joined(named.iter().map(|(name, _)| name), " ");
            lines.push(format!("{before}static_routes=\"{names}\""));
        }
        let each = named
            .iter()
            .map(|(name, words)| format!("{before}route_{name}=\"{words}\""));
        lines.extend(each);
    }
    lines
}

fn words(route: &Route, name: &str) -> String {
    let kind = if route.to.address.is_ipv4() {
        "-net"
    } else {
        "-inet6"
    };
    match route.via {
        Some(via) => format!("{kind} {} {via}", route.to),
        None => format!("{kind} {} -interface {name}", route.to),
    }
}
