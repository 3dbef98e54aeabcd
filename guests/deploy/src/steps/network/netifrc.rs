//! The stack netifrc of Gentoo: `/etc/conf.d/net` (see `net.example`), and the services that read
//! it.

use super::super::super::EntryKind;
use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::bond::BondOption;
use super::files::{Files, with_block};
use super::links::{Link, LinkKind, Setup, joined};
use super::settings::{Addressing, Route};
use diskfs_disk::Result;

const PATH: &str = "/etc/conf.d/net";
const INIT: &str = "/etc/init.d";
const LEVEL: &str = "/etc/runlevels/default";

/// Writes the settings, and a service for each interface, which is a symlink to the service of the
/// loopback.
pub(super) fn render(guest: &mut Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    let lines: Vec<String> = setup
        .links
        .iter()
        .flat_map(|it| variables(it, &setup.links))
        .collect();
    let lines = of_lines(lines);
    if setup.is_clean {
        files.add(PATH, &lines, 0o644);
        remove_services(guest, setup)?;
    } else {
        let before = guest.stage.text(PATH)?.unwrap_or_default();
        files.edit(PATH, with_block(&before, &lines));
    }
    guest.stage.make_dirs(LEVEL, 0o755)?;
    for link in started(&setup.links) {
        let service = format!("net.{}", link.name);
        let path = format!("{INIT}/{service}");
        guest.stage.symlink(&path, "net.lo")?;
        if !link.ip.standby {
            guest.stage.symlink(&format!("{LEVEL}/{service}"), &path)?;
        }
    }
    Ok(())
}

/// Returns the interfaces that have a service of their own. VLANs are brought up by the interfaces
/// below them.
fn started(links: &[Link]) -> impl Iterator<Item = &Link> {
    links
        .iter()
        .filter(|link| !matches!(link.kind, LinkKind::Vlan { .. }))
}

/// Removes the services of interfaces that no longer exist.
fn remove_services(guest: &mut Guest, setup: &Setup) -> Result<()> {
    for dir in [INIT, LEVEL] {
        if !guest.stage.is_dir(dir)? {
            continue;
        }
        for name in guest.stage.names(dir)? {
            let Some(interface) = name.strip_prefix("net.") else {
                continue;
            };
            let is_known = started(&setup.links)
                .any(|link| link.name == interface && (dir == INIT || !link.ip.standby));
            let path = format!("{dir}/{name}");
            let entry = guest.stage.link_entry(&path)?;
            let is_link = entry.is_some_and(|it| matches!(it.kind, EntryKind::Symlink(_)));
            if interface != "lo" && !is_known && is_link {
                guest.stage.remove(&path)?;
            }
        }
    }
    Ok(())
}

fn variables(link: &Link, links: &[Link]) -> Vec<String> {
    let ip = &link.ip;
    let name = plain(&link.name);
    let mut lines = vec![format!("config_{name}=\"{}\"", config(link).join("\n"))];
    let mut routes: Vec<String> = ip.routes_with_links().iter().map(route).collect();
    routes.extend(
        ip.all_routes()
            .iter()
            .take(ip.gateways().count())
            .map(route),
    );
    for (key, value) in [
        ("routes", routes.join("\n")),
        ("dns_servers", joined(&ip.nameservers, " ")),
        ("dns_search", joined(&ip.search, " ")),
        ("mtu", ip.mtu.map(|it| it.to_string()).unwrap_or_default()),
    ] {
        if !value.is_empty() {
            lines.push(format!("{key}_{name}=\"{value}\""));
        }
    }
    if let LinkKind::Bond {
        members,
        mode,
        options,
    } = &link.kind
    {
        lines.push(format!("slaves_{name}=\"{}\"", members.join(" ")));
        lines.push(format!("mode_{name}=\"{}\"", mode.name()));
        let option = |it: &BondOption| format!("{}_{name}=\"{}\"", it.name, it.spaced());
        lines.extend(options.iter().map(option));
        let needs = joined(members.iter().map(|it| format!("net.{it}")), " ");
        lines.push(format!("rc_net_{name}_need=\"{needs}\""));
    }
    lines.extend(vlans(link, links));
    lines
}

/// Returns the settings that create the VLANs on an interface and give them names.
fn vlans(link: &Link, links: &[Link]) -> Vec<String> {
    let name = plain(&link.name);
    let on: Vec<(&str, u16)> = links
        .iter()
        .filter_map(|it| match &it.kind {
            LinkKind::Vlan { parent, id } if *parent == link.name => Some((&*it.name, *id)),
            _ => None,
        })
        .collect();
    if on.is_empty() {
        return Vec::new();
    }
    let ids = joined(on.iter().map(|(_, id)| id), " ");
    let mut lines = vec![format!("vlans_{name}=\"{ids}\"")];
    let names = on
        .iter()
        .map(|(vlan, id)| format!("{name}_vlan{id}_name=\"{vlan}\""));
    lines.extend(names);
    lines
}

fn config(link: &Link) -> Vec<String> {
    let Addressing {
        dhcp4,
        dhcp6,
        addresses,
        ..
    } = &link.ip;
    let mut config: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    for (is_so, word) in [(*dhcp4, "dhcp"), (*dhcp6, "dhcpv6")] {
        if is_so {
            config.push(word.to_owned());
        }
    }
    if config.is_empty() {
        config.push("null".to_owned());
    }
    config
}

/// Returns the arguments of a route for ip-route(8). netifrc adds the device itself.
fn route(route: &Route) -> String {
    let to = if route.to.is_default() {
        "default".to_owned()
    } else {
        route.to.to_string()
    };
    let is_v6_default = route.to.is_default() && route.to.address.is_ipv6();
    let to = if is_v6_default { "::/0".to_owned() } else { to };
    let via = route
        .via
        .map(|via| format!(" via {via}"))
        .unwrap_or_default();
    let metric = route
        .metric
        .map(|it| format!(" metric {it}"))
        .unwrap_or_default();
    format!("{to}{via}{metric}")
}

/// Converts a name to a variable name, which has only letters, digits and `_`.
fn plain(name: &str) -> String {
    name.replace(['.', '-'], "_")
}
