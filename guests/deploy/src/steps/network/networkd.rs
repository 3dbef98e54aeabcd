//! The stack systemd-networkd (systemd.network(5), systemd.netdev(5)).

use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::bond::BondOption;
use super::files::Files;
use super::links::{self, Link, LinkKind, Setup, joined, nameservers, vlans_on};
use super::resolver;
use super::settings::{Addressing, Route};
use diskfs_disk::Result;

const DIR: &str = "/etc/systemd/network";
const UNIT: &str = "systemd-networkd.service";
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

/// Writes the files of each interface, and enables the service if it is not enabled.
pub(super) fn render(guest: &mut Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    for link in &setup.links {
        let path = format!("{DIR}/10-diskfs-{}", link.name);
        files.add(
            format!("{path}.network"),
            &network(link, &setup.links),
            0o644,
        );
        if let Some(text) = device(link) {
            files.add(format!("{path}.netdev"), &text, 0o644);
        }
    }
    if !guest.is_enabled(UNIT)? {
        let Some(unit) = guest.unit(UNIT)? else {
            return Err(guest.invalid("systemd-networkd is not installed in the guest"));
        };
        guest.stage.make_dirs(WANTS, 0o755)?;
        guest.stage.symlink(&format!("{WANTS}/{UNIT}"), &unit)?;
        guest.note("systemd-networkd was enabled");
    }
    if !guest.is_enabled("systemd-resolved.service")? && !nameservers(&setup.links).is_empty() {
        resolver::write(guest, setup, files)?;
    }
    Ok(())
}

/// Returns the `[NetDev]` file of a virtual interface.
fn device(link: &Link) -> Option<String> {
    let name = &link.name;
    match &link.kind {
        LinkKind::Physical { .. } => None,
        LinkKind::Bond { mode, options, .. } => {
            let mut lines = vec![format!("Mode={}", mode.name())];
            lines.extend(options.iter().filter_map(BondOption::of_networkd));
            let lines = of_lines(lines);
            Some(format!(
                "[NetDev]\nName={name}\nKind=bond\n\n[Bond]\n{lines}"
            ))
        }
        LinkKind::Vlan { id, .. } => Some(format!(
            "[NetDev]\nName={name}\nKind=vlan\n\n[VLAN]\nId={id}\n"
        )),
    }
}

/// Returns true if the link is the primary member of a bond.
fn is_primary(link: &Link, links: &[Link]) -> bool {
    let mut options = links.iter().flat_map(links::options);
    options.any(|it| it.name == "primary" && it.value == link.name)
}

fn network(link: &Link, links: &[Link]) -> String {
    let ip = &link.ip;
    let mut lines = matching(link);
    if ip.mtu.is_some() || ip.standby {
        lines.extend([String::new(), "[Link]".to_owned()]);
    }
    lines.extend(ip.mtu.map(|mtu| format!("MTUBytes={mtu}")));
    if ip.standby {
        let words = ["RequiredForOnline=no", "ActivationPolicy=manual"];
        lines.extend(words.map(str::to_owned));
    }
    lines.extend([String::new(), "[Network]".to_owned()]);
    match &link.bond {
        Some(bond) => {
            lines.push(format!("Bond={bond}"));
            if is_primary(link, links) {
                lines.push("PrimarySlave=yes".to_owned());
            }
        }
        None => lines.extend(addressing(ip)),
    }
    lines.extend(vlans_on(links, &link.name).map(|vlan| format!("VLAN={}", vlan.name)));
    lines.extend(ip.all_routes().iter().flat_map(route));
    of_lines(lines)
}

fn matching(link: &Link) -> Vec<String> {
    let matched = match &link.kind {
        // VLANs and bonds may have the same address, but they are of another type.
        LinkKind::Physical { mac, is_infiniband } if !is_infiniband => {
            vec![format!("MACAddress={mac}"), "Type=ether".to_owned()]
        }
        _ => vec![format!("Name={}", link.name)],
    };
    [vec!["[Match]".to_owned()], matched].concat()
}

fn addressing(ip: &Addressing) -> Vec<String> {
    let dhcp = match (ip.dhcp4, ip.dhcp6) {
        (true, true) => "yes",
        (true, false) => "ipv4",
        (false, true) => "ipv6",
        (false, false) => "no",
    };
    let mut lines = vec![format!("DHCP={dhcp}")];
    let accept_ra = ip.accept_ra.map(|it| if it { "yes" } else { "no" });
    lines.extend(accept_ra.map(|it| format!("IPv6AcceptRA={it}")));
    lines.extend(ip.addresses.iter().map(|own| format!("Address={own}")));
    lines.extend(ip.nameservers.iter().map(|server| format!("DNS={server}")));
    if !ip.search.is_empty() {
        lines.push(format!("Domains={}", joined(&ip.search, " ")));
    }
    lines
}

/// Writes a route. One without a destination is a default route.
fn route(route: &Route) -> Vec<String> {
    let mut lines = vec![String::new(), "[Route]".to_owned()];
    if !route.to.is_default() || route.via.is_none() {
        lines.push(format!("Destination={}", route.to));
    }
    lines.extend(route.via.map(|via| format!("Gateway={via}")));
    if route.via.is_none() && route.to.address.is_ipv4() {
        lines.push("Scope=link".to_owned());
    }
    if route.on_link && route.via.is_some() {
        lines.push("GatewayOnLink=yes".to_owned());
    }
    lines.extend(route.metric.map(|metric| format!("Metric={metric}")));
    lines
}
