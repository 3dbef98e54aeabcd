//! The stack wicked of SUSE and the scripts before it: `ifcfg-*` files (ifcfg(5), ifroute(5)).

use super::super::super::guest::Guest;
use super::super::super::text::{of_lines, with_line};
use super::bond::BondOption;
use super::files::Files;
use super::links::{Link, LinkKind, Setup, joined, nameservers, search};
use super::settings::{Addressing, Route};
use diskfs_disk::Result;

pub(super) const DIR: &str = "/etc/sysconfig/network";

/// Writes a file per interface, a file of its routes, and the name servers in the common settings.
pub(super) fn render(guest: &mut Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    for link in &setup.links {
        let name = &link.name;
        files.add(
            format!("{DIR}/ifcfg-{name}"),
            &of_lines(variables(link)),
            0o644,
        );
        let mut routes = link.ip.routes_with_links();
        routes.extend(
            link.ip
                .all_routes()
                .into_iter()
                .take(link.ip.gateways().count()),
        );
        if !routes.is_empty() {
            let lines = routes.iter().map(|it| route(it, name));
            files.add(format!("{DIR}/ifroute-{name}"), &of_lines(lines), 0o644);
        }
        if link.ip.accept_ra.is_some() {
            guest.note(format!(
                "{name}: accept-ra was ignored, because wicked uses the kernel's setting"
            ));
        }
    }
    let path = format!("{DIR}/config");
    let before = guest.stage.text(&path)?.unwrap_or_default();
    let mut text = before.clone();
    for (key, value) in [
        (
            "NETCONFIG_DNS_STATIC_SERVERS",
            joined(nameservers(&setup.links), " "),
        ),
        (
            "NETCONFIG_DNS_STATIC_SEARCHLIST",
            joined(search(&setup.links), " "),
        ),
    ] {
        if !value.is_empty() || setup.is_clean {
            text = with_value(&text, key, &value);
        }
    }
    if text != before {
        files.edit(path, text);
    }
    Ok(())
}

/// Returns the text with a variable set. A variable that is missing is only added if the value is
/// not empty.
fn with_value(text: &str, key: &str, value: &str) -> String {
    let is_it = |line: &str| line.strip_prefix(key).is_some_and(|it| it.starts_with('='));
    let new = format!("{key}=\"{value}\"");
    if !text.lines().any(is_it) {
        let is_new = !value.is_empty();
        return if is_new {
            with_line(text.to_owned(), &new)
        } else {
            text.to_owned()
        };
    }
    let lines = text.split_inclusive('\n');
    let set = |line: &str| {
        if is_it(line) {
            format!("{new}\n")
        } else {
            line.to_owned()
        }
    };
    lines.map(set).collect()
}

fn variables(link: &Link) -> Vec<String> {
    let ip = &link.ip;
    let mut lines = Vec::new();
    let mut set = |name: &str, value: &dyn std::fmt::Display| {
        lines.push(format!("{name}='{value}'"));
    };
    let start = match (ip.standby, &link.bond) {
        (true, _) => "manual",
        (false, Some(_)) => "hotplug",
        (false, None) => "auto",
    };
    set("STARTMODE", &start);
    set("BOOTPROTO", &protocol(link));
    if let Some(mtu) = ip.mtu {
        set("MTU", &mtu);
    }
    for (own, number) in ip.addresses.iter().zip(0_usize..) {
        let ending = if number == 0 {
            String::new()
        } else {
            format!("_{number}")
        };
        set(&format!("IPADDR{ending}"), own);
    }
    match &link.kind {
        LinkKind::Physical { .. } => {}
        LinkKind::Bond {
            members,
            mode,
            options,
        } => {
            set("BONDING_MASTER", &"yes");
            for (member, number) in members.iter().zip(0_usize..) {
                set(&format!("BONDING_SLAVE{number}"), member);
            }
            let mode = std::iter::once(format!("mode={}", mode.name()));
            let options = joined(mode.chain(options.iter().map(BondOption::of_module)), " ");
            set("BONDING_MODULE_OPTS", &options);
        }
        LinkKind::Vlan { parent, id } => {
            set("ETHERDEVICE", parent);
            set("VLAN_ID", id);
        }
    }
    lines
}

fn protocol(link: &Link) -> &'static str {
    let Addressing { dhcp4, dhcp6, .. } = link.ip;
    match (dhcp4, dhcp6) {
        (true, true) => "dhcp",
        (true, false) => "dhcp4",
        (false, true) => "dhcp6",
        (false, false) if link.ip.addresses.is_empty() => "none",
        (false, false) => "static",
    }
}

/// Returns a route: destination, gateway, netmask and interface, with `-` for a missing field.
fn route(route: &Route, name: &str) -> String {
    let to = match (route.to.is_default(), route.to.address.is_ipv4()) {
        (true, true) => "default".to_owned(),
        _ => route.to.to_string(),
    };
    let via = route.via.map_or("-".to_owned(), |via| via.to_string());
    let metric = route
        .metric
        .map(|it| format!(" metric {it}"))
        .unwrap_or_default();
    format!("{to} {via} - {name}{metric}")
}
