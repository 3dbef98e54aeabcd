//! systemd-networkd (systemd.network(5), systemd.netdev(5)).

use super::super::super::guest::Guest;
use super::files::Files;
use super::links::{Kind, Link, Setup, joined, nameservers, vlans_on};
use super::resolver;
use super::settings::{Addressing, Route};
use crate::Result;

const DIR: &str = "/etc/systemd/network";
const UNIT: &str = "systemd-networkd.service";
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

/// Files for each interface; and the service, where it does not start by itself.
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
            return Err(guest.invalid("there is no systemd-networkd"));
        };
        guest.stage.make_dirs(WANTS, 0o755)?;
        guest.stage.symlink(&format!("{WANTS}/{UNIT}"), &unit)?;
        guest.note("systemd-networkd was not enabled: now it is");
    }
    if !guest.is_enabled("systemd-resolved.service")? && !nameservers(&setup.links).is_empty() {
        resolver::write(guest, setup, files)?;
    }
    Ok(())
}

/// `[NetDev]`, for what the machine doesn't have.
fn device(link: &Link) -> Option<String> {
    let kind = match link.kind {
        Kind::Physical { .. } => return None,
        Kind::Bond { .. } => "bond",
        Kind::Vlan { .. } => "vlan",
    };
    let mut text = format!("[NetDev]\nName={}\nKind={kind}\n", link.name);
    match &link.kind {
        Kind::Physical { .. } => {}
        Kind::Bond {
            mode, miimon_ms, ..
        } => {
            let mode = mode.name();
            text += &format!("\n[Bond]\nMode={mode}\nMIIMonitorSec={miimon_ms}ms\n");
        }
        Kind::Vlan { id, .. } => text += &format!("\n[VLAN]\nId={id}\n"),
    }
    Some(text)
}

fn network(link: &Link, links: &[Link]) -> String {
    let mut text = matching(link);
    let ip = &link.ip;
    if ip.mtu.is_some() || ip.standby {
        text += "\n[Link]\n";
    }
    if let Some(mtu) = ip.mtu {
        text += &format!("MTUBytes={mtu}\n");
    }
    if ip.standby {
        text += "RequiredForOnline=no\nActivationPolicy=manual\n";
    }
    text += "\n[Network]\n";
    if let Some(bond) = &link.bond {
        text += &format!("Bond={bond}\n");
    } else {
        text += &addressing(ip);
    }
    for vlan in vlans_on(links, &link.name) {
        text += &format!("VLAN={}\n", vlan.name);
    }
    text.extend(ip.all_routes().iter().map(route));
    text
}

fn matching(link: &Link) -> String {
    match &link.kind {
        // Its VLANs and bonds have the same address, but they are of another type.
        Kind::Physical { mac, is_infiniband } if !is_infiniband => {
            format!("[Match]\nMACAddress={mac}\nType=ether\n")
        }
        _ => format!("[Match]\nName={}\n", link.name),
    }
}

fn addressing(ip: &Addressing) -> String {
    let dhcp = match (ip.dhcp4, ip.dhcp6) {
        (true, true) => "yes",
        (true, false) => "ipv4",
        (false, true) => "ipv6",
        (false, false) => "no",
    };
    let mut text = format!("DHCP={dhcp}\n");
    if let Some(accept_ra) = ip.accept_ra {
        text += if accept_ra {
            "IPv6AcceptRA=yes\n"
        } else {
            "IPv6AcceptRA=no\n"
        };
    }
    for own in &ip.addresses {
        text += &format!("Address={own}\n");
    }
    for server in &ip.nameservers {
        text += &format!("DNS={server}\n");
    }
    if !ip.search.is_empty() {
        text += &format!("Domains={}\n", joined(&ip.search, " "));
    }
    text
}

fn route(route: &Route) -> String {
    let mut text = "\n[Route]\n".to_owned();
    if !route.to.is_default() {
        text += &format!("Destination={}\n", route.to);
    }
    match route.via {
        Some(via) => text += &format!("Gateway={via}\n"),
        None if route.to.is_default() => text += &format!("Destination={}\n", route.to),
        None => {}
    }
    if route.via.is_none() && route.to.address.is_ipv4() {
        text += "Scope=link\n";
    }
    if route.on_link && route.via.is_some() {
        text += "GatewayOnLink=yes\n";
    }
    if let Some(metric) = route.metric {
        text += &format!("Metric={metric}\n");
    }
    text
}
