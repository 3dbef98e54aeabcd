//! The checked interfaces of a plan. Each has a name, and its role in a bond or VLAN.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::hostname::is_name;
use super::bond::BondOption;
use super::settings::{Addressing, BondMode, Network, Route};
use super::values::{Mac, Prefix};

/// The limit on the length of interface names: Linux's `IFNAMSIZ` without the NUL.
const NAME_BYTES: usize = 15;

/// The limit on the number of interfaces, which is larger than that of any real machine.
const MAX_LINKS: usize = 1000;

/// The possible MTUs of an Ethernet interface: from the minimum of RFC 791 to the maximum of 16
/// bits.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 68..=65535;

/// The minimum MTU for IPv6 (RFC 8200, section 5).
const MTU_V6_BYTES: u32 = 1280;

/// The network settings to write for a stack.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) links: Vec<Link>,
    /// True if the previous configuration is removed.
    pub(super) is_clean: bool,
}

/// An interface with its checked settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// The name of the interface. For stacks that match interfaces by hardware address, the name of
    /// its settings.
    pub(super) name: String,
    /// True if the plan gives the name.
    pub(super) is_named: bool,
    pub(super) kind: LinkKind,
    /// The bond of which the interface is a member.
    pub(super) bond: Option<String>,
    pub(super) ip: Addressing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkKind {
    Physical {
        mac: Mac,
        is_infiniband: bool,
    },
    Bond {
        members: Vec<String>,
        mode: BondMode,
        /// All other options, including `miimon`.
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
            LinkKind::Physical { mac, .. } => Some(mac),
            _ => None,
        }
    }

    pub(super) fn is_infiniband(&self) -> bool {
        matches!(
            self.kind,
            LinkKind::Physical {
                is_infiniband: true,
                ..
            }
        )
    }
}

/// Returns the options of a bond; empty for other kinds of interfaces.
pub(super) fn options(link: &Link) -> &[BondOption] {
    match &link.kind {
        LinkKind::Bond { options, .. } => options,
        _ => &[],
    }
}

/// Returns the VLANs on an interface.
pub(super) fn vlans_on<'l>(links: &'l [Link], name: &str) -> impl Iterator<Item = &'l Link> {
    links
        .iter()
        .filter(move |it| matches!(&it.kind, LinkKind::Vlan { parent, .. } if parent == name))
}

/// Returns all name servers without duplicates.
pub(super) fn nameservers(links: &[Link]) -> Vec<IpAddr> {
    unique(links.iter().flat_map(|link| link.ip.nameservers.clone()))
}

/// Returns all search domains without duplicates.
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

/// Joins the values with a separator.
pub(super) fn joined<T: ToString>(all: impl IntoIterator<Item = T>, with: &str) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    all.join(with)
}

/// The result of a check: a value, or the reason for refusing it.
pub(super) type CheckResult<T> = Result<T, String>;

/// Checks the settings of a plan. Interfaces without a name get the prefix `unnamed` with a number.
pub(super) fn checked_links(network: &Network, unnamed: &str) -> CheckResult<Vec<Link>> {
    let count = [
        network.interfaces.len(),
        network.bonds.len(),
        network.vlans.len(),
    ];
    if count.iter().any(|count| *count > MAX_LINKS) {
        return Err(format!(
            "too many interfaces: at most {MAX_LINKS} of each kind"
        ));
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
            kind: LinkKind::Physical {
                mac: interface.mac.clone(),
                is_infiniband: interface.infiniband,
            },
            bond: None,
            ip: interface.addressing(),
        });
    }
    links
}

/// Returns the index of an interface that the plan refers to by name or hardware address.
fn referred(links: &[Link], to: &str) -> CheckResult<usize> {
    let mac: Option<Mac> = to.parse().ok();
    let is_meant = |link: &Link| link.name == to || mac.is_some() && link.mac() == mac.as_ref();
    let found = links.iter().position(is_meant);
    found.ok_or_else(|| format!("no such interface: `{to}`"))
}

fn add_bonds(network: &Network, links: &mut Vec<Link>) -> CheckResult<()> {
    for bond in &network.bonds {
        let of_bond = |reason: String| format!("{}: {reason}", bond.name);
        if bond.members.is_empty() {
            return Err(of_bond("missing members".to_owned()));
        }
        let mut members = Vec::new();
        for member in &bond.members {
            let at = referred(links, member).map_err(of_bond)?;
            let Some(member) = links.get_mut(at) else {
                continue;
            };
            if let Some(other) = member.bond.replace(bond.name.clone()) {
                return Err(of_bond(format!(
                    "{} is already a member of {other}",
                    member.name
                )));
            }
            if member.is_infiniband() && bond.mode != BondMode::ActiveBackup {
                return Err(of_bond(
                    "InfiniBand supports only the mode active-backup".to_owned(),
                ));
            }
            if !matches!(member.kind, LinkKind::Physical { .. }) {
                return Err(of_bond(format!(
                    "{} is not a physical interface, and cannot be a member",
                    member.name
                )));
            }
            members.push(member.name.clone());
        }
        let primary = primary(bond, links, &members).map_err(of_bond)?;
        let options = bond.options(primary).map_err(of_bond)?;
        links.push(Link {
            name: bond.name.clone(),
            is_named: true,
            kind: LinkKind::Bond {
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

/// Returns the name of the primary member. A plan identifies interfaces by hardware address, but
/// the kernel expects a name here.
fn primary(
    bond: &super::settings::Bond,
    links: &[Link],
    members: &[String],
) -> CheckResult<Option<String>> {
    let Some(primary) = &bond.primary else {
        return Ok(None);
    };
    let at = referred(links, primary)?;
    let link = links.get(at).filter(|link| members.contains(&link.name));
    let link = link.ok_or_else(|| format!("the primary interface {primary} is not a member"))?;
    if !link.is_named {
        return Err(format!(
            "missing key `name` of the primary interface {primary}"
        ));
    }
    Ok(Some(link.name.clone()))
}

fn add_vlans(network: &Network, links: &mut Vec<Link>) -> CheckResult<()> {
    for vlan in &network.vlans {
        let of_vlan = |reason: String| format!("{}: {reason}", vlan.name);
        let at = referred(links, &vlan.parent).map_err(of_vlan)?;
        let Some(parent) = links.get(at) else {
            continue;
        };
        if let Some(bond) = &parent.bond {
            return Err(of_vlan(format!(
                "{} is a member of {bond}, and cannot carry VLANs",
                parent.name
            )));
        }
        if parent.is_infiniband() || matches!(parent.kind, LinkKind::Vlan { .. }) {
            return Err(of_vlan(format!(
                "{} cannot carry VLANs: it is an InfiniBand interface or a VLAN",
                parent.name
            )));
        }
        if !(1..=4094).contains(&vlan.id) {
            return Err(of_vlan(format!(
                "invalid VLAN ID {}: expected 1 to 4094",
                vlan.id
            )));
        }
        let parent = parent.name.clone();
        let is_same = |it: &Link| matches!(it.kind, LinkKind::Vlan { id, .. } if id == vlan.id);
        if vlans_on(links, &parent).any(is_same) {
            return Err(of_vlan(format!(
                "duplicate VLAN ID {} on {parent}",
                vlan.id
            )));
        }
        links.push(Link {
            name: vlan.name.clone(),
            is_named: true,
            kind: LinkKind::Vlan {
                parent,
                id: vlan.id,
            },
            bond: None,
            ip: vlan.addressing(),
        });
    }
    Ok(())
}

fn check_names(links: &[Link]) -> CheckResult<()> {
    let mut names = BTreeSet::new();
    let mut macs = BTreeSet::new();
    for link in links {
        let name = &link.name;
        // A name must not contain characters with a meaning in shells, YAML or paths.
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let begins = name
            .bytes()
            .next()
            .is_some_and(|it| it.is_ascii_alphabetic());
        if !begins || name.len() > NAME_BYTES || !name.bytes().all(is_part) {
            return Err(format!(
                "invalid interface name `{name}`: expected a letter, then letters, digits and \
                 `._-`, at most {NAME_BYTES} characters"
            ));
        }
        if name == "lo" || name == "lo0" {
            return Err(format!(
                "invalid interface name `{name}`: it is the loopback interface"
            ));
        }
        if !names.insert(name) {
            return Err(format!("duplicate interface name `{name}`"));
        }
        if let Some(mac) = link.mac()
            && !macs.insert(mac)
        {
            return Err(format!("duplicate hardware address {mac}"));
        }
    }
    Ok(())
}

fn check(link: &Link) -> CheckResult<()> {
    let ip = &link.ip;
    if let LinkKind::Physical { mac, is_infiniband } = &link.kind
        && *is_infiniband == (mac.len_bytes() == 6)
    {
        let what = if *is_infiniband {
            "InfiniBand (8 or 20 bytes)"
        } else {
            "Ethernet (6 bytes)"
        };
        return Err(format!(
            "invalid hardware address {mac}: expected an address of {what}"
        ));
    }
    let has_own = !ip.addresses.is_empty() || ip.dhcp4 || ip.dhcp6 || !ip.routes.is_empty();
    if let Some(bond) = &link.bond
        && (has_own || ip.gateways().next().is_some())
    {
        return Err(format!(
            "a member of {bond} cannot have addresses or routes"
        ));
    }
    let mut addresses = BTreeSet::new();
    for own in &ip.addresses {
        let is_odd = own.address.is_unspecified() || own.address.is_multicast();
        if is_odd || own.address.is_loopback() || own.is_default() {
            return Err(format!(
                "invalid interface address {own}: it is unspecified, multicast, loopback or a \
                 whole address family"
            ));
        }
        if !addresses.insert(own.address) {
            return Err(format!("duplicate address {}", own.address));
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
            return Err(format!(
                "duplicate route to {} with the same metric",
                route.to
            ));
        }
    }
    if let Some(odd) = ip.nameservers.iter().find(|it| it.is_unspecified()) {
        return Err(format!("invalid name server {odd}"));
    }
    match ip.search.iter().find(|domain| !is_name(domain)) {
        Some(odd) => Err(format!("invalid search domain `{odd}`")),
        None => Ok(()),
    }
}

fn check_mtu(ip: &Addressing) -> CheckResult<()> {
    match ip.mtu {
        Some(mtu) if !MTU_BYTES.contains(&mtu) => {
            Err(format!("invalid MTU {mtu}: expected 68 to 65535"))
        }
        Some(mtu) if mtu < MTU_V6_BYTES && (ip.has_v6() || ip.dhcp6) => Err(format!(
            "invalid MTU {mtu}: IPv6 requires at least {MTU_V6_BYTES}"
        )),
        _ => Ok(()),
    }
}

fn check_route(ip: &Addressing, route: &Route) -> CheckResult<()> {
    let to = route.to;
    if to.has_host_bits() {
        return Err(format!(
            "invalid route destination {to}: bits after the prefix are set"
        ));
    }
    let Some(via) = gateway(route) else {
        return Ok(());
    };
    if via.is_ipv4() != to.address.is_ipv4() {
        return Err(format!(
            "the gateway {via} of the route to {to} belongs to the other address family"
        ));
    }
    check_gateway(ip, via, route.on_link)
}

/// Returns the gateway of a route. An unspecified address counts as no gateway.
fn gateway(route: &Route) -> Option<IpAddr> {
    route.via.filter(|via| !via.is_unspecified())
}

/// Checks that a gateway can be reached: it is in the network of an address, it is on the link
/// because the plan says so, or its network becomes known only at run time (DHCP, router
/// advertisements).
fn check_gateway(ip: &Addressing, gateway: IpAddr, is_on_link: bool) -> CheckResult<()> {
    if gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() {
        return Err(format!(
            "invalid gateway {gateway}: it is unspecified, multicast or loopback"
        ));
    }
    if ip.addresses.iter().any(|own| own.address == gateway) {
        return Err(format!(
            "invalid gateway {gateway}: it is an address of the interface itself"
        ));
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
        "unreachable gateway {gateway}: it is in no network of the interface; if it is on the \
         link, set gateway-on-link or on-link"
    ))
}

fn check_default_routes(links: &[Link]) -> CheckResult<()> {
    for is_v4 in [true, false] {
        let has_gateway =
            |link: &&Link| link.ip.gateways().any(|gateway| gateway.is_ipv4() == is_v4);
        let mut with_gateway = links.iter().filter(has_gateway);
        if let (Some(first), Some(second)) = (with_gateway.next(), with_gateway.next()) {
            return Err(format!(
                "{} and {} both have a default route; write one of them under `routes` with a \
                 metric",
                first.name, second.name
            ));
        }
    }
    Ok(())
}

fn add_metadata_routes(links: &mut [Link]) -> CheckResult<()> {
    let ways: [fn(&Link) -> bool; 4] = [
        |link| link.ip.gateway4.is_some(),
        |link| link.ip.gateway6.is_some(),
        |link| link.ip.dhcp4,
        |link| !link.ip.addresses.is_empty() || link.ip.dhcp6,
    ];
    let found = ways.iter().find_map(|is_it| links.iter().position(is_it));
    let Some(link) = found.and_then(|at| links.get_mut(at)) else {
        return Err(
            "cannot add the routes of metadata-route: no interface has an address".to_owned(),
        );
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
