//! The stack netctl of Arch Linux: one profile per interface (netctl.profile(5)).

use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::files::Files;
use super::links::{Link, LinkKind, Setup, joined};
use super::settings::{Addressing, Route};
use diskfs_disk::Result;

pub(super) const DIR: &str = "/etc/netctl";
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";
const UNIT: &str = "/usr/lib/systemd/system/netctl@.service";

/// Writes the profiles, and the symlinks that enable their services.
pub(super) fn render(guest: &mut Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    for link in &setup.links {
        // Bonds and VLANs bring up the interfaces below them.
        if link.bond.is_some() {
            continue;
        }
        let profile = format!("diskfs-{}", link.name);
        files.add(
            format!("{DIR}/{profile}"),
            &of_lines(variables(link)),
            0o600,
        );
        let service = format!("{WANTS}/netctl@{}.service", escaped(&profile));
        if !link.ip.standby {
            guest.stage.make_dirs(WANTS, 0o755)?;
            guest.stage.symlink(&service, UNIT)?;
        }
    }
    if setup.is_clean {
        remove_services(guest, files)?;
    }
    Ok(())
}

/// Removes the services of profiles that no longer exist.
fn remove_services(guest: &mut Guest, files: &Files) -> Result<()> {
    if !guest.stage.is_dir(WANTS)? {
        return Ok(());
    }
    for name in guest.stage.names(WANTS)? {
        let profile = name
            .strip_prefix("netctl@")
            .and_then(|it| it.strip_suffix(".service"));
        let Some(profile) = profile else {
            continue;
        };
        let profile = profile.replace("\\x2d", "-");
        if !files.has(&format!("{DIR}/{profile}")) {
            guest.stage.remove(&format!("{WANTS}/{name}"))?;
        }
    }
    Ok(())
}

/// Escapes a name as systemd-escape(1) does, which uses the hyphen for a slash.
fn escaped(profile: &str) -> String {
    profile.replace('-', "\\x2d")
}

fn variables(link: &Link) -> Vec<String> {
    let ip = &link.ip;
    let mut lines = vec![
        "Description='Written by diskfs deploy'".to_owned(),
        format!("Interface={}", link.name),
    ];
    lines.extend(connection(link));
    let ip4 = match (ip.dhcp4, ip.has_v4()) {
        (true, _) => "dhcp",
        (false, true) => "static",
        (false, false) => "no",
    };
    lines.push(format!("IP={ip4}"));
    add(&mut lines, ip, true);
    let ip6 = match (ip.dhcp6, ip.has_v6()) {
        (true, _) => Some("dhcp"),
        (false, true) => Some("static"),
        (false, false) => match ip.accept_ra {
            Some(true) => Some("stateless"),
            Some(false) => Some("no"),
            None => None, // the kernel's default
        },
    };
    lines.extend(ip6.map(|it| format!("IP6={it}")));
    add(&mut lines, ip, false);
    let servers: Vec<String> = ip.nameservers.iter().map(ToString::to_string).collect();
    lines.extend(array("DNS", &servers));
    lines.extend(array("DNSSearch", &ip.search));
    if let Some(mtu) = ip.mtu {
        lines.push(format!(
            "ExecUpPost='ip link set dev {} mtu {mtu}'",
            link.name
        ));
    }
    lines
}

fn connection(link: &Link) -> Vec<String> {
    match &link.kind {
        LinkKind::Physical { .. } => vec!["Connection=ethernet".to_owned()],
        LinkKind::Bond {
            members,
            mode,
            options,
        } => {
            let options = options.iter().map(|it| format!("{} {}", it.name, it.value));
            vec![
                "Connection=bond".to_owned(),
                format!("BindsToInterfaces=({})", members.join(" ")),
                format!("Mode={}", mode.name()),
                format!("LinkOptions='{}'", joined(options, " ")),
            ]
        }
        LinkKind::Vlan { parent, id } => vec![
            "Connection=vlan".to_owned(),
            format!("BindsToInterfaces={parent}"),
            format!("VLANID={id}"),
        ],
    }
}

fn add(lines: &mut Vec<String>, ip: &Addressing, is_v4: bool) {
    let ending = if is_v4 { "" } else { "6" };
    let own = ip
        .addresses
        .iter()
        .filter(|it| it.address.is_ipv4() == is_v4);
    let own: Vec<String> = own.map(ToString::to_string).collect();
    lines.extend(array(&format!("Address{ending}"), &own));
    let gateway = ip.gateways().find(|it| it.is_ipv4() == is_v4);
    let mut routes = ip.routes_with_links();
    match gateway {
        Some(_) if ip.gateway_on_link => {
            routes.extend(ip.all_routes().into_iter().take(ip.gateways().count()));
        }
        Some(gateway) => lines.push(format!("Gateway{ending}='{gateway}'")),
        None => {}
    }
    let routes = routes.iter().filter(|it| it.to.address.is_ipv4() == is_v4);
    let routes: Vec<String> = routes.map(route).collect();
    lines.extend(array(&format!("Routes{ending}"), &routes));
}

fn array(name: &str, all: &[String]) -> Option<String> {
    let all: Vec<String> = all.iter().map(|it| format!("'{it}'")).collect();
    (!all.is_empty()).then(|| format!("{name}=({})", all.join(" ")))
}

/// Returns the arguments of a route for ip-route(8).
fn route(route: &Route) -> String {
    let via = route
        .via
        .map(|via| format!(" via {via}"))
        .unwrap_or_default();
    let metric = route
        .metric
        .map(|it| format!(" metric {it}"))
        .unwrap_or_default();
    format!("{}{via}{metric}", route.to)
}
