//! The interfaces of a plan after all is checked: each with a name, and with what it is a part of.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::hostname::is_name;
use super::bond::BondOption;
use super::settings::{Addressing, BondMode, Network, Route};
use super::values::{Mac, Prefix};

/// `IFNAMSIZ` of Linux without its NUL.
const NAME_BYTES: usize = 15;

/// More than a machine has.
const MAX_LINKS: usize = 1000;

/// Which packets an interface of Ethernet can be told to take: RFC 791's least, and what 16 bits hold.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 68..=65535;

/// The least with IPv6 (RFC 8200, section 5).
const MTU_V6_BYTES: u32 = 1280;

/// What a stack is to be told.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) links: Vec<Link>,
    /// Whether what was there before goes.
    pub(super) is_clean: bool,
}

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// What it is called, or what a stack that matches by hardware calls its settings.
    pub(super) name: String,
    /// Whether the plan names it.
    pub(super) is_named: bool,
    pub(super) kind: Kind,
    /// The bond that it is a part of.
    pub(super) bond: Option<String>,
    pub(super) ip: Addressing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Physical {
        mac: Mac,
        is_infiniband: bool,
    },
    Bond {
        members: Vec<String>,
        mode: BondMode,
        /// All others, `miimon` among them.
        options: Vec<BondOption>,
    },
    Vlan {
        parent: String,
        id: u16,
    },
}

impl Link {
    pub(super) fn mac(&self) -> Option<&Mac> {
        match &self.kind {
            Kind::Physical { mac, .. } => Some(mac),
            _ => None,
        }
    }

    pub(super) fn is_infiniband(&self) -> bool {
        matches!(
            self.kind,
            Kind::Physical {
                is_infiniband: true,
                ..
            }
        )
    }
}

/// The options of a bond; none of other kinds.
pub(super) fn options(link: &Link) -> &[BondOption] {
    match &link.kind {
        Kind::Bond { options, .. } => options,
        _ => &[],
    }
}

/// Those that are on a link, as VLANs.
pub(super) fn vlans_on<'l>(links: &'l [Link], name: &str) -> impl Iterator<Item = &'l Link> {
    links
        .iter()
        .filter(move |it| matches!(&it.kind, Kind::Vlan { parent, .. } if parent == name))
}

/// All name servers, each once.
pub(super) fn nameservers(links: &[Link]) -> Vec<IpAddr> {
    unique(links.iter().flat_map(|link| link.ip.nameservers.clone()))
}

/// All domains that names are searched in, each once.
pub(super) fn search(links: &[Link]) -> Vec<String> {
    unique(links.iter().flat_map(|link| link.ip.search.clone()))
}

fn unique<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Words joined, as in lists of settings.
pub(super) fn joined<T: ToString>(all: impl IntoIterator<Item = T>, with: &str) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    all.join(with)
}

/// What holds, or what is wrong with it.
pub(super) type Checked<T> = Result<T, String>;

/// Checks what a plan says. What it doesn't name is called `unnamed`, with a number.
pub(super) fn of(network: &Network, unnamed: &str) -> Checked<Vec<Link>> {
    let count = [
        network.interfaces.len(),
        network.bonds.len(),
        network.vlans.len(),
    ];
    if count.iter().any(|count| *count > MAX_LINKS) {
        return Err(format!("there are more than {MAX_LINKS} interfaces"));
    }
    let mut links = physical(network, unnamed);
    add_bonds(network, &mut links)?;
    add_vlans(network, &mut links)?;
    check_names(&links)?;
    for link in &links {
        check(link).map_err(|reason| format!("{}: {reason}", link.name))?;
    }
    check_default_routes(&links)?;
    if network.metadata_route {
        add_metadata_routes(&mut links)?;
    }
    for route in links.iter_mut().flat_map(|link| &mut link.ip.routes) {
        route.via = gateway(route);
    }
    Ok(links)
}

fn physical(network: &Network, unnamed: &str) -> Vec<Link> {
    let of_interfaces = network.interfaces.iter().map(|it| it.name.clone());
    let mut taken: BTreeSet<String> = of_interfaces.flatten().collect();
    taken.extend(network.bonds.iter().map(|it| it.name.clone()));
    taken.extend(network.vlans.iter().map(|it| it.name.clone()));
    let mut links = Vec::new();
    for (interface, number) in network.interfaces.iter().zip(0_usize..) {
        let made_up = || {
            let names = (number..).map(|number| format!("{unnamed}{number}"));
            names
                .into_iter()
                .find(|name| !taken.contains(name))
                .unwrap_or_default()
        };
        let name = interface.name.clone().unwrap_or_else(made_up);
        taken.insert(name.clone());
        links.push(Link {
            name,
            is_named: interface.name.is_some(),
            kind: Kind::Physical {
                mac: interface.mac.clone(),
                is_infiniband: interface.infiniband,
            },
            bond: None,
            ip: interface.addressing(),
        });
    }
    links
}

/// The name of what a plan refers to, by name or hardware's address.
fn referred(links: &[Link], to: &str) -> Checked<usize> {
    let mac: Option<Mac> = to.parse().ok();
    let is_meant = |link: &Link| link.name == to || mac.is_some() && link.mac() == mac.as_ref();
    let found = links.iter().position(is_meant);
    found.ok_or_else(|| format!("there is no interface `{to}`"))
}

fn add_bonds(network: &Network, links: &mut Vec<Link>) -> Checked<()> {
    for bond in &network.bonds {
        let of_bond = |reason: String| format!("{}: {reason}", bond.name);
        if bond.members.is_empty() {
            return Err(of_bond("it has no members".to_owned()));
        }
        let mut members = Vec::new();
        for member in &bond.members {
            let at = referred(links, member).map_err(of_bond)?;
            let Some(member) = links.get_mut(at) else {
                continue;
            };
            if let Some(other) = member.bond.replace(bond.name.clone()) {
                return Err(of_bond(format!("{} is a part of {other}", member.name)));
            }
            if member.is_infiniband() && bond.mode != BondMode::ActiveBackup {
                return Err(of_bond("InfiniBand has active-backup only".to_owned()));
            }
            if !matches!(member.kind, Kind::Physical { .. }) {
                return Err(of_bond(format!("{} is no interface alone", member.name)));
            }
            members.push(member.name.clone());
        }
        let primary = primary(bond, links, &members).map_err(of_bond)?;
        let options = bond.options(primary).map_err(of_bond)?;
        links.push(Link {
            name: bond.name.clone(),
            is_named: true,
            kind: Kind::Bond {
                members,
                mode: bond.mode,
                options,
            },
            bond: None,
            ip: bond.addressing(),
        });
    }
    Ok(())
}

/// The name of the primary part. Interfaces are told by their hardware, but the kernel takes a name there.
fn primary(
    bond: &super::settings::Bond,
    links: &[Link],
    members: &[String],
) -> Checked<Option<String>> {
    let Some(primary) = &bond.primary else {
        return Ok(None);
    };
    let at = referred(links, primary)?;
    let link = links.get(at).filter(|link| members.contains(&link.name));
    let link = link.ok_or_else(|| format!("the primary {primary} is not one of the members"))?;
    if !link.is_named {
        return Err(format!("the primary {primary} has no `name`"));
    }
    Ok(Some(link.name.clone()))
}

fn add_vlans(network: &Network, links: &mut Vec<Link>) -> Checked<()> {
    for vlan in &network.vlans {
        let of_vlan = |reason: String| format!("{}: {reason}", vlan.name);
        let at = referred(links, &vlan.parent).map_err(of_vlan)?;
        let Some(parent) = links.get(at) else {
            continue;
        };
        if let Some(bond) = &parent.bond {
            return Err(of_vlan(format!("{} is a part of {bond}", parent.name)));
        }
        if parent.is_infiniband() || matches!(parent.kind, Kind::Vlan { .. }) {
            return Err(of_vlan(format!("{} carries no VLANs", parent.name)));
        }
        if !(1..=4094).contains(&vlan.id) {
            return Err(of_vlan(format!("{} is no number of a VLAN", vlan.id)));
        }
        let parent = parent.name.clone();
        let is_same = |it: &Link| matches!(it.kind, Kind::Vlan { id, .. } if id == vlan.id);
        if vlans_on(links, &parent).any(is_same) {
            return Err(of_vlan(format!("{parent} has VLAN {} twice", vlan.id)));
        }
        links.push(Link {
            name: vlan.name.clone(),
            is_named: true,
            kind: Kind::Vlan {
                parent,
                id: vlan.id,
            },
            bond: None,
            ip: vlan.addressing(),
        });
    }
    Ok(())
}

fn check_names(links: &[Link]) -> Checked<()> {
    let mut names = BTreeSet::new();
    let mut macs = BTreeSet::new();
    for link in links {
        let name = &link.name;
        // What a shell, YAML or a path could take for something else is nobody's name.
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let begins = name
            .bytes()
            .next()
            .is_some_and(|it| it.is_ascii_alphabetic());
        if !begins || name.len() > NAME_BYTES || !name.bytes().all(is_part) {
            return Err(format!("`{name}` is no name of an interface"));
        }
        if name == "lo" || name == "lo0" {
            return Err(format!("`{name}` is the loopback"));
        }
        if !names.insert(name) {
            return Err(format!("there are two interfaces `{name}`"));
        }
        if let Some(mac) = link.mac()
            && !macs.insert(mac)
        {
            return Err(format!("there are two interfaces with {mac}"));
        }
    }
    Ok(())
}

fn check(link: &Link) -> Checked<()> {
    let ip = &link.ip;
    if let Kind::Physical { mac, is_infiniband } = &link.kind
        && *is_infiniband == (mac.len_bytes() == 6)
    {
        let what = if *is_infiniband {
            "InfiniBand"
        } else {
            "Ethernet"
        };
        return Err(format!("{mac} is no address of {what}"));
    }
    let has_own = !ip.addresses.is_empty() || ip.dhcp4 || ip.dhcp6 || !ip.routes.is_empty();
    if let Some(bond) = &link.bond
        && (has_own || ip.gateways().next().is_some())
    {
        return Err(format!("a part of {bond} has no addresses and routes"));
    }
    let mut addresses = BTreeSet::new();
    for own in &ip.addresses {
        let is_odd = own.address.is_unspecified() || own.address.is_multicast();
        if is_odd || own.address.is_loopback() || own.is_default() {
            return Err(format!("{own} is no address of an interface"));
        }
        if !addresses.insert(own.address) {
            return Err(format!("{} is there twice", own.address));
        }
    }
    check_mtu(ip)?;
    for gateway in ip.gateways() {
        check_gateway(ip, gateway, ip.gateway_on_link)?;
    }
    let mut known = BTreeSet::new();
    for route in &ip.routes {
        check_route(ip, route)?;
        if !known.insert((route.to, route.metric)) {
            return Err(format!("there are two routes to {}", route.to));
        }
    }
    if let Some(odd) = ip.nameservers.iter().find(|it| it.is_unspecified()) {
        return Err(format!("{odd} is no name server"));
    }
    match ip.search.iter().find(|domain| !is_name(domain)) {
        Some(odd) => Err(format!("`{odd}` is no domain")),
        None => Ok(()),
    }
}

fn check_mtu(ip: &Addressing) -> Checked<()> {
    match ip.mtu {
        Some(mtu) if !MTU_BYTES.contains(&mtu) => Err(format!("{mtu} is no MTU")),
        Some(mtu) if mtu < MTU_V6_BYTES && (ip.has_v6() || ip.dhcp6) => {
            Err(format!("with IPv6, the MTU is at least {MTU_V6_BYTES}"))
        }
        _ => Ok(()),
    }
}

fn check_route(ip: &Addressing, route: &Route) -> Checked<()> {
    let to = route.to;
    if to.has_host_bits() {
        return Err(format!("{to} has bits behind its prefix"));
    }
    let Some(via) = gateway(route) else {
        return Ok(());
    };
    if via.is_ipv4() != to.address.is_ipv4() {
        return Err(format!("the route to {to} is of another kind than {via}"));
    }
    check_gateway(ip, via, route.on_link)
}

/// The gateway of a route, where it has one: an unspecified one is none.
fn gateway(route: &Route) -> Option<IpAddr> {
    route.via.filter(|via| !via.is_unspecified())
}

/// A gateway is in the network of an address, or on the link because the plan says so, or because its network is told
/// only when the guest runs.
fn check_gateway(ip: &Addressing, gateway: IpAddr, is_on_link: bool) -> Checked<()> {
    if gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() {
        return Err(format!("{gateway} is no gateway"));
    }
    if ip.addresses.iter().any(|own| own.address == gateway) {
        return Err(format!("the gateway {gateway} is its own address"));
    }
    let is_told_later = match gateway {
        IpAddr::V4(_) => ip.dhcp4,
        IpAddr::V6(it) => ip.dhcp6 || ip.accept_ra == Some(true) || it.is_unicast_link_local(),
    };
    let is_reached = ip.addresses.iter().any(|own| own.has(gateway));
    if is_on_link || is_told_later || is_reached {
        return Ok(());
    }
    Err(format!(
        "no address reaches the gateway {gateway}: if it is on the link, say so"
    ))
}

fn check_default_routes(links: &[Link]) -> Checked<()> {
    for is_v4 in [true, false] {
        let has_gateway =
            |link: &&Link| link.ip.gateways().any(|gateway| gateway.is_ipv4() == is_v4);
        let mut with_gateway = links.iter().filter(has_gateway);
        if let (Some(first), Some(second)) = (with_gateway.next(), with_gateway.next()) {
            return Err(format!(
                "{} and {} have a default route each: one of them is a route with a metric",
                first.name, second.name
            ));
        }
    }
    Ok(())
}

fn add_metadata_routes(links: &mut [Link]) -> Checked<()> {
    let ways: [fn(&Link) -> bool; 4] = [
        |link| link.ip.gateway4.is_some(),
        |link| link.ip.gateway6.is_some(),
        |link| link.ip.dhcp4,
        |link| !link.ip.addresses.is_empty() || link.ip.dhcp6,
    ];
    let found = ways.iter().find_map(|is_it| links.iter().position(is_it));
    let Some(link) = found.and_then(|at| links.get_mut(at)) else {
        return Err("no interface has an address, so none has metadata-route".to_owned());
    };
    let ip = &mut link.ip;
    let wanted = [
        ("169.254.169.254/32", ip.has_v4() || ip.dhcp4),
        ("fd00:ec2::254/128", ip.has_v6() || ip.dhcp6),
    ];
    for (to, _) in wanted.iter().filter(|(_, is_wanted)| *is_wanted) {
        let to: Prefix = to.parse()?;
        if !ip.routes.iter().any(|route| route.to == to) {
            ip.routes.push(Route {
                to,
                via: None,
                on_link: false,
                metric: None,
            });
        }
    }
    Ok(())
}
