//! The stack of Red Hat's network scripts up to version 7: `ifcfg-*` files
//! (`/usr/share/doc/initscripts*/sysconfig.txt`).

use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::bond::BondOption;
use super::detect;
use super::files::Files;
use super::links::{Link, LinkKind, Setup, joined};
use super::settings::{Addressing, Route};
use diskfs_disk::Result;

pub(super) const DIR: &str = "/etc/sysconfig/network-scripts";

/// Writes a file per interface, and files for its routes.
pub(super) fn render(guest: &Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    let is_managed = detect::starts(guest, "NetworkManager.service")?;
    for link in &setup.links {
        let name = &link.name;
        let lines = variables(link, is_managed);
        files.add(format!("{DIR}/ifcfg-{name}"), &of_lines(lines), 0o644);
        for (before, is_v4) in [("route-", true), ("route6-", false)] {
            let routes = link.ip.routes_with_links();
            let routes = routes.iter().filter(|it| it.to.address.is_ipv4() == is_v4);
            let mut lines: Vec<String> = routes.map(|it| route(it, name)).collect();
            lines.extend(default_route(&link.ip, name, is_v4));
            if !lines.is_empty() {
                files.add(format!("{DIR}/{before}{name}"), &of_lines(lines), 0o644);
            }
        }
    }
    Ok(())
}

fn variables(link: &Link, is_managed: bool) -> Vec<String> {
    let ip = &link.ip;
    let mut all = Variables::default();
    all.set("DEVICE", &link.name);
    all.set("NAME", &link.name);
    all.set("ONBOOT", yes(!ip.standby));
    all.set("NM_CONTROLLED", yes(is_managed));
    all.set("USERCTL", "no");
    all.set("BOOTPROTO", if ip.dhcp4 { "dhcp" } else { "none" });
    if let Some(mtu) = ip.mtu {
        all.set("MTU", mtu);
    }
    add_hardware(&mut all, link);
    add_v4(&mut all, ip);
    add_v6(&mut all, ip);
    for (server, number) in ip.nameservers.iter().zip(1_usize..) {
        all.set(&format!("DNS{number}"), server);
    }
    if !ip.search.is_empty() {
        all.set("DOMAIN", format!("\"{}\"", joined(&ip.search, " ")));
    }
    all.0
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn add_hardware(all: &mut Variables, link: &Link) {
    match &link.kind {
        LinkKind::Physical { mac, is_infiniband } => {
            all.set(
                "TYPE",
                if *is_infiniband {
                    "InfiniBand"
                } else {
                    "Ethernet"
                },
            );
            if mac.len_bytes() != 8 {
                all.set("HWADDR", mac.as_str().to_ascii_uppercase());
            }
            if let Some(bond) = &link.bond {
                all.set("MASTER", bond);
                all.set("SLAVE", "yes");
            }
        }
        LinkKind::Bond { mode, options, .. } => {
            all.set("TYPE", "Bond");
            all.set("BONDING_MASTER", "yes");
            let mode = std::iter::once(format!("mode={}", mode.name()));
            let options = joined(mode.chain(options.iter().map(BondOption::of_module)), " ");
            all.set("BONDING_OPTS", format!("\"{options}\""));
        }
        LinkKind::Vlan { parent, id } => {
            all.set("TYPE", "Vlan");
            all.set("VLAN", "yes");
            all.set("VLAN_ID", id);
            all.set("PHYSDEV", parent);
        }
    }
}

fn add_v4(all: &mut Variables, ip: &Addressing) {
    for (own, number) in ip.v4().zip(0_usize..) {
        let ending = if number == 0 {
            String::new()
        } else {
            number.to_string()
        };
        all.set(&format!("IPADDR{ending}"), own.address);
        all.set(&format!("PREFIX{ending}"), own.bits());
    }
    if let Some(gateway) = ip.gateway4.filter(|_| !ip.gateway_on_link) {
        all.set("GATEWAY", gateway);
    }
}

fn add_v6(all: &mut Variables, ip: &Addressing) {
    let is_used = ip.has_v6() || ip.dhcp6 || ip.accept_ra == Some(true);
    if is_used {
        all.set("IPV6INIT", "yes");
    }
    let accept_ra = ip.accept_ra.or(ip.has_v6().then_some(false));
    if let Some(accept_ra) = accept_ra {
        all.set("IPV6_AUTOCONF", yes(accept_ra));
    }
    if ip.dhcp6 {
        all.set("DHCPV6C", "yes");
    }
    let mut own = ip.v6();
    if let Some(first) = own.next() {
        all.set("IPV6ADDR", first);
    }
    let others = joined(own, " ");
    if !others.is_empty() {
        all.set("IPV6ADDR_SECONDARIES", format!("\"{others}\""));
    }
    if let Some(gateway) = ip.gateway6.filter(|_| !ip.gateway_on_link) {
        all.set("IPV6_DEFAULTGW", gateway);
    }
}

/// Returns the default route over an on-link gateway. It must come after the route to the gateway.
fn default_route(ip: &Addressing, name: &str, is_v4: bool) -> Option<String> {
    let gateway = ip.gateways().find(|it| it.is_ipv4() == is_v4)?;
    let is_here = ip.gateway_on_link;
    is_here.then(|| format!("default via {gateway} dev {name}"))
}

/// Returns the arguments of a route for ip-route(8).
fn route(route: &Route, name: &str) -> String {
    let to = route.to;
    let via = route
        .via
        .map(|via| format!("via {via} "))
        .unwrap_or_default();
    let metric = route
        .metric
        .map(|it| format!(" metric {it}"))
        .unwrap_or_default();
    format!("{to} {via}dev {name}{metric}")
}

#[derive(Default)]
struct Variables(Vec<String>);

impl Variables {
    fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("{name}={value}"));
    }
}
