//! The stack ifupdown: `/etc/network/interfaces` (interfaces(5)) of Debian, and of Alpine, whose
//! `BusyBox` supports less of it.

use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::bond::BondOption;
use super::detect::exists_one_of;
use super::files::{Files, HEADER, is_deployed, with_block, without_block};
use super::links::{Link, LinkKind, Setup, joined, nameservers};
use super::resolver;
use super::settings::{Addressing, Route};
use super::values::Prefix;
use diskfs_disk::Result;

pub(super) const PATH: &str = "/etc/network/interfaces";

/// The default contents of a missing file.
const LOOPBACK: &str = "auto lo\niface lo inet loopback\n";

/// The distribution that the file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    Debian,
    /// Alpine, whose `BusyBox` accepts one stanza per address family.
    Alpine,
}

/// Writes the file. Also writes `/etc/resolv.conf` if nothing generates it from `dns-nameservers`.
pub(super) fn render(
    guest: &mut Guest,
    setup: &Setup,
    flavour: Flavour,
    files: &mut Files,
) -> Result<()> {
    let before = guest.stage.text(PATH)?.unwrap_or_default();
    let stanzas: Vec<String> = setup
        .links
        .iter()
        .map(|link| stanzas(link, flavour))
        .collect();
    let stanzas = stanzas.join("\n");
    if setup.is_clean {
        files.edit(PATH, format!("{}\n{stanzas}", without_interfaces(&before)));
        guest.stage.make_dirs("/etc/network", 0o755)?;
    } else {
        files.edit(PATH, with_block(&before, &stanzas));
    }
    let makes_resolver = exists_one_of(guest, &["/sbin/resolvconf", "/usr/sbin/resolvconf"])?;
    if flavour == Flavour::Alpine || !makes_resolver && !nameservers(&setup.links).is_empty() {
        resolver::write(guest, setup, files)?;
    }
    if flavour == Flavour::Alpine {
        enable(guest)?;
    }
    note_programs(guest, setup, flavour)
}

/// Enables Alpine's service, as its installer does.
fn enable(guest: &mut Guest) -> Result<()> {
    const SERVICE: &str = "/etc/init.d/networking";
    const LEVEL: &str = "/etc/runlevels/boot";
    for level in [LEVEL, "/etc/runlevels/default"] {
        let link = guest.stage.link_entry(&format!("{level}/networking"))?;
        if link.is_some() {
            return Ok(());
        }
    }
    if guest.stage.exists(SERVICE)? {
        guest.stage.make_dirs(LEVEL, 0o755)?;
        guest
            .stage
            .symlink(&format!("{LEVEL}/networking"), SERVICE)?;
    }
    Ok(())
}

fn note_programs(guest: &mut Guest, setup: &Setup, flavour: Flavour) -> Result<()> {
    let has_bonds = setup
        .links
        .iter()
        .any(|it| matches!(it.kind, LinkKind::Bond { .. }));
    let (programs, package) = match flavour {
        Flavour::Debian => (["/sbin/ifenslave", "/usr/sbin/ifenslave"], "ifenslave"),
        Flavour::Alpine => (
            [
                "/etc/network/if-pre-up.d/bonding",
                "/usr/libexec/ifupdown-ng/bond",
            ],
            "bonding",
        ),
    };
    if has_bonds && !exists_one_of(guest, &programs)? {
        guest.note(format!(
            "{package} is not installed in the guest: ifupdown cannot create bonds without it"
        ));
    }
    Ok(())
}

/// Returns the header, and the contents of a file except its interfaces: the loopback, included
/// files and comments.
pub(super) fn without_interfaces(text: &str) -> String {
    let text = without_block(text);
    let text = if is_deployed(&text) {
        text.get(HEADER.len()..).unwrap_or_default()
    } else {
        &text
    };
    let mut out = HEADER.to_owned();
    let mut is_kept = true;
    let mut has_loopback = false;
    let mut is_continued = false;
    for line in text.split_inclusive('\n') {
        if !is_continued {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("iface" | "mapping"), name) => {
                    is_kept = name == Some("lo");
                    has_loopback |= is_kept;
                }
                (Some("auto" | "rename"), _) => is_kept = has_word(line, "lo"),
                (Some("source" | "source-directory" | "template"), _) => is_kept = true,
                (Some(word), _) if word.starts_with("allow-") || word.starts_with("no-") => {
                    is_kept = has_word(line, "lo");
                }
                _ => {}
            }
        }
        is_continued = line.trim_end().ends_with('\\');
        let is_comment = line.trim_start().starts_with('#');
        if is_kept && line.trim_start().starts_with("auto") && !is_continued {
            out += "auto lo\n";
        } else if is_kept || is_comment {
            out += line;
        }
    }
    let mut out = format!("{}\n", out.trim_end());
    if !has_loopback {
        out.extend(["\n", LOOPBACK]);
    }
    out
}

fn has_word(line: &str, word: &str) -> bool {
    line.split_whitespace().any(|it| it == word)
}

fn stanzas(link: &Link, flavour: Flavour) -> String {
    let name = &link.name;
    let ip = &link.ip;
    let mut parts = v4(ip, name, flavour);
    let with_v4 = parts.len();
    parts.extend(v6(ip, name, flavour));
    if parts.is_empty() {
        parts.push(InterfaceStanza::new("inet manual"));
    }
    if let Some(first) = parts.first_mut() {
        add_settings(first, link, flavour);
    }
    // Routes come after the addresses from which their gateways are reachable.
    for (route, command) in routes(ip, name) {
        let is_of_v4 = route.to.address.is_ipv4() && with_v4 > 0;
        let at = if is_of_v4 { with_v4 } else { parts.len() };
        if let Some(part) = parts.get_mut(at.saturating_sub(1)) {
            part.options.push(command);
        }
    }
    let mut lines = Vec::new();
    if !ip.standby {
        lines.push(format!("auto {name}"));
    }
    for part in parts {
        lines.push(format!("iface {name} {}", part.family));
        lines.extend(part.options.iter().map(|option| format!("\t{option}")));
    }
    of_lines(lines)
}

/// Adds the settings that an interface has once, whatever its addresses.
fn add_settings(first: &mut InterfaceStanza, link: &Link, flavour: Flavour) {
    let name = &link.name;
    let ip = &link.ip;
    if first.family == "inet manual" && flavour == Flavour::Alpine {
        first.options.push(format!("up ip link set dev {name} up"));
    }
    let knows_mtu = matches!(first.family, "inet static" | "inet manual");
    match ip.mtu {
        Some(mtu) if knows_mtu => first.options.push(format!("mtu {mtu}")),
        // The method of DHCP has no option for the MTU.
        Some(mtu) => {
            let command = format!("pre-up ip link set dev {name} mtu {mtu}");
            first.options.push(command);
        }
        None => {}
    }
    first.options.extend(hardware(link));
    let words = [
        ("dns-nameservers", joined(&ip.nameservers, " ")),
        ("dns-search", joined(&ip.search, " ")),
    ];
    let said = words.iter().filter(|(_, value)| !value.is_empty());
    let said = said.map(|(word, value)| format!("{word} {value}"));
    first.options.extend(said);
}

/// A stanza of an interface.
struct InterfaceStanza {
    family: &'static str,
    options: Vec<String>,
}

impl InterfaceStanza {
    fn new(family: &'static str) -> Self {
        Self {
            family,
            options: Vec::new(),
        }
    }
}

fn v4(ip: &Addressing, name: &str, flavour: Flavour) -> Vec<InterfaceStanza> {
    let mut parts = Vec::new();
    if ip.dhcp4 {
        parts.push(InterfaceStanza::new("inet dhcp"));
    }
    for own in ip.v4() {
        if let Some(first) = parts.first_mut().filter(|_| flavour == Flavour::Alpine) {
            first.options.push(add_address(own, name));
            continue;
        }
        let mut part = InterfaceStanza::new("inet static");
        part.options.push(format!("address {}", own.address));
        part.options.push(format!("netmask {}", own.mask_v4()));
        parts.push(part);
    }
    if let Some(gateway) = ip.gateway4 {
        add_gateway(&mut parts, ip, name, gateway.into());
    }
    parts
}

fn v6(ip: &Addressing, name: &str, flavour: Flavour) -> Vec<InterfaceStanza> {
    let mut parts = Vec::new();
    if ip.dhcp6 {
        parts.push(InterfaceStanza::new("inet6 dhcp"));
    } else if ip.accept_ra == Some(true) && !ip.has_v6() {
        parts.push(InterfaceStanza::new("inet6 auto"));
    }
    for own in ip.v6() {
        if let Some(first) = parts.first_mut().filter(|_| flavour == Flavour::Alpine) {
            first.options.push(add_address(own, name));
            continue;
        }
        let mut part = InterfaceStanza::new("inet6 static");
        part.options.push(format!("address {}", own.address));
        part.options.push(format!("netmask {}", own.bits()));
        parts.push(part);
    }
    if let Some(gateway) = ip.gateway6 {
        add_gateway(&mut parts, ip, name, gateway.into());
    }
    if let (Some(first), Some(accept_ra)) = (parts.first_mut(), ip.accept_ra)
        && first.family != "inet6 auto"
    {
        first
            .options
            .push(format!("accept_ra {}", u8::from(accept_ra)));
    }
    parts
}

fn add_address(own: &Prefix, name: &str) -> String {
    format!("up ip addr add {own} dev {name}")
}

/// Adds `gateway` if it is reachable from an address; otherwise a route to the gateway and a
/// default route.
fn add_gateway(
    parts: &mut [InterfaceStanza],
    ip: &Addressing,
    name: &str,
    gateway: std::net::IpAddr,
) {
    let reaches = |part: &&mut InterfaceStanza| part.family.ends_with("static");
    let part = parts.iter_mut().find(reaches);
    match part.filter(|_| !ip.gateway_on_link) {
        Some(part) => part.options.push(format!("gateway {gateway}")),
        None => {
            if let Some(first) = parts.first_mut() {
                let all = ip.all_routes();
                let default = all.iter().find(|it| it.via == Some(gateway));
                let to_gateway = ip.routes_with_links();
                let on_link = to_gateway
                    .iter()
                    .find(|it| it.to == Prefix::of_host(gateway));
                first
                    .options
                    .extend(on_link.into_iter().chain(default).map(|it| up(it, name)));
            }
        }
    }
}

/// Returns the routes, except those to gateways that were already written, each with its command.
fn routes(ip: &Addressing, name: &str) -> Vec<(Route, String)> {
    let is_told = |route: &Route| {
        ip.gateway_on_link && ip.gateways().any(|it| route.to == Prefix::of_host(it))
    };
    let all = ip.routes_with_links().into_iter();
    let others = all.filter(|route| !is_told(route));
    others
        .map(|route| {
            let command = up(&route, name);
            (route, command)
        })
        .collect()
}

/// Returns a command that adds a route. A route that already exists is no error.
fn up(route: &Route, name: &str) -> String {
    let ip = if route.to.address.is_ipv4() {
        "ip"
    } else {
        "ip -6"
    };
    let to = if route.to.is_default() {
        "default".to_owned()
    } else {
        route.to.to_string()
    };
    let via = route
        .via
        .map(|via| format!(" via {via}"))
        .unwrap_or_default();
    let metric = route
        .metric
        .map(|it| format!(" metric {it}"))
        .unwrap_or_default();
    format!("up {ip} route add {to}{via} dev {name}{metric} || true")
}

/// Returns the options of bonds and VLANs.
fn hardware(link: &Link) -> Vec<String> {
    match &link.kind {
        LinkKind::Physical { .. } => {
            let of_bond = link.bond.iter();
            of_bond.map(|bond| format!("bond-master {bond}")).collect()
        }
        LinkKind::Bond {
            members,
            mode,
            options,
        } => {
            let mut lines = vec![
                format!("bond-slaves {}", members.join(" ")),
                format!("bond-mode {}", mode.name()),
            ];
            let option =
                |it: &BondOption| format!("bond-{} {}", it.name.replace('_', "-"), it.spaced());
            lines.extend(options.iter().map(option));
            lines
        }
        LinkKind::Vlan { parent, id } => {
            vec![format!("vlan-raw-device {parent}"), format!("vlan-id {id}")]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_interface_stays() {
        let text = "# mine\nsource /etc/network/interfaces.d/*\n\nauto lo eth0\niface lo inet loopback\n\nallow-hotplug ens3\niface ens3 inet static\n  address 192.0.2.9\\\n/24\n# last\n";
        let kept = without_interfaces(text);
        assert_eq!(
            kept,
            format!(
                "{HEADER}# mine\nsource /etc/network/interfaces.d/*\n\nauto lo\niface lo inet loopback\n\n# last\n"
            )
        );
        assert_eq!(without_interfaces(&kept), kept);
        assert_eq!(without_interfaces(""), format!("{HEADER}\n{LOOPBACK}"));
    }
}
