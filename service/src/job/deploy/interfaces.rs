//! The network configuration of a guest.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use diskfs_deploy::{
    Bond, Interface, LacpRate, Mac, Network as NetworkStep, Prefix, Route as RouteStep, Stack,
    Step, Vlan, XmitHashPolicy,
};
use diskfs_disk::Result;
use serde_json::json;

use super::prefixes::{is_private, private};
use super::{Deploy, Nic, parse};

/// The address of interfaces without a network of their own.
const VIRTUAL: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 231);

/// The interval in which a bond checks its members, in milliseconds.
const MIIMON: u32 = 100;

/// The addresses and routes of a link.
#[derive(Default)]
struct Addressing {
    addresses: Vec<Prefix>,
    dhcp4: bool,
    dhcp6: bool,
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<std::net::Ipv6Addr>,
    mtu: Option<u32>,
    routes: Vec<RouteStep>,
    nameservers: Vec<IpAddr>,
    search: Vec<String>,
}

/// Sets the addresses of a link: all kinds have the same fields.
macro_rules! set_addresses {
    ($link:expr, $addressing:expr) => {{
        let (link, addressing): (_, Addressing) = (&mut $link, $addressing);
        link.addresses = addressing.addresses;
        link.dhcp4 = addressing.dhcp4;
        link.dhcp6 = addressing.dhcp6;
        link.gateway4 = addressing.gateway4;
        link.gateway6 = addressing.gateway6;
        link.mtu = addressing.mtu;
        link.routes = addressing.routes;
        link.nameservers = addressing.nameservers;
        link.search = addressing.search;
    }};
}

impl Deploy {
    /// Adds the step that configures the interfaces, if there are any.
    pub(super) fn add_network(&self, steps: &mut Vec<Step>) -> Result<()> {
        let network = &self.network;
        if network.nics.is_empty() && network.standby.is_empty() {
            return Ok(());
        }
        let mut step = NetworkStep {
            stack: Stack::Auto,
            clean: true,
            interfaces: Vec::new(),
            bonds: Vec::new(),
            vlans: Vec::new(),
            metadata_route: true,
        };
        let names = self.names();
        for team in self.teams() {
            let members: Vec<String> = team.members.iter().map(|nic| name(&names, nic)).collect();
            for nic in &team.members {
                step.interfaces.push(interface(nic, name(&names, nic))?);
            }
            let vlan = Some(team.main.vlan).filter(|vlan| network.has_vlans && *vlan > 1);
            let parent = if team.members.len() > 1 {
                let bond_name = format!("bond{}", step.bonds.len());
                let mut bond = bond(&bond_name, &members)?;
                if vlan.is_none() {
                    set_addresses!(bond, self.addressing(team.main));
                }
                step.bonds.push(bond);
                bond_name
            } else {
                if let Some(last) = step.interfaces.last_mut().filter(|_| vlan.is_none()) {
                    set_addresses!(*last, self.addressing(team.main));
                }
                members.into_iter().next().unwrap_or_default()
            };
            if let Some(id) = vlan {
                let link = json!({ "name": format!("{parent}.{id}"), "parent": parent, "id": id });
                let mut vlan: Vlan = parse(link)?;
                set_addresses!(vlan, self.addressing(team.main));
                step.vlans.push(vlan);
            }
        }
        for nic in &network.standby {
            let mut interface = interface(nic, name(&names, nic))?;
            interface.standby = true;
            step.interfaces.push(interface);
        }
        steps.push(Step::Network(step));
        Ok(())
    }

    /// Returns the interfaces, each with the other members of its bond.
    fn teams(&self) -> Vec<Team<'_>> {
        let nics = &self.network.nics;
        let is_pair = |a: &Nic, b: &Nic| {
            a.mac != b.mac
                && (a.team_with.as_ref() == Some(&b.mac) || b.team_with.as_ref() == Some(&a.mac))
        };
        let mut teams: Vec<Team<'_>> = Vec::new();
        for nic in nics {
            let known =
                |team: &&mut Team<'_>| team.members.iter().any(|member| is_pair(member, nic));
            match teams.iter_mut().find(known) {
                Some(team) => {
                    if team.main.address4.is_none() && nic.address4.is_some() {
                        team.main = nic;
                    }
                    team.members.push(nic);
                }
                None => teams.push(Team {
                    main: nic,
                    members: vec![nic],
                }),
            }
        }
        teams
    }

    /// Returns the names of all interfaces, by their number: `eth0`, or `en0` if the interfaces
    /// have different drivers, so that the kernel's names could be others.
    fn names(&self) -> BTreeMap<Mac, String> {
        let all = || self.network.nics.iter().chain(&self.network.standby);
        let mut drivers = all().map(|nic| &nic.driver);
        let first = drivers.next();
        let is_mixed = drivers.any(|driver| Some(driver) != first);
        all()
            .map(|nic| {
                let prefix = match (nic.is_infiniband, is_mixed) {
                    (true, _) => "ib",
                    (false, true) => "en",
                    (false, false) => "eth",
                };
                (nic.mac.clone(), format!("{prefix}{}", nic.index))
            })
            .collect()
    }

    fn addressing(&self, nic: &Nic) -> Addressing {
        let mut addressing = Addressing {
            mtu: nic.mtu,
            nameservers: nic.nameservers.clone(),
            search: Some(nic.domain.clone())
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect(),
            ..Addressing::default()
        };
        if nic.is_virtual {
            addressing.addresses.push(Prefix::of_host(VIRTUAL.into()));
            return addressing;
        }
        if !nic.is_static {
            addressing.dhcp4 = true;
            addressing.dhcp6 = nic.address6.is_some();
            return addressing;
        }
        addressing.addresses = [nic.address4, nic.address6].into_iter().flatten().collect();
        let is_it = |found: Option<&Nic>| found.is_some_and(|found| found.mac == nic.mac);
        addressing.gateway4 = nic.gateway4.filter(|_| is_it(self.main4()));
        addressing.gateway6 = nic.gateway6.filter(|_| is_it(self.main6()));
        addressing.routes = self.routes(nic);
        addressing
    }

    /// Returns the interface of the IPv4 default route.
    fn main4(&self) -> Option<&Nic> {
        let can = |nic: &&Nic| nic.address4.is_some() && nic.gateway4.is_some();
        let mut nics = self.network.nics.iter().filter(can);
        nics.clone()
            .find(|nic| nic.is_default)
            .or_else(|| nics.next())
    }

    /// Returns the interface of the IPv6 default route.
    fn main6(&self) -> Option<&Nic> {
        let can = |nic: &&Nic| nic.address6.is_some() && nic.gateway6.is_some();
        let mut nics = self.network.nics.iter().filter(can);
        nics.clone()
            .find(|nic| nic.is_default)
            .or_else(|| nics.next())
    }

    /// Returns the routes of an interface: its own, and those to private networks if it is the
    /// first interface beside one with a public address that has the default route.
    fn routes(&self, nic: &Nic) -> Vec<RouteStep> {
        let mut routes: Vec<RouteStep> = nic.routes.iter().map(|it| route(it.to, it.via)).collect();
        let networks = private(&self.policy.private_prefixes);
        let Some((main, gateway)) = self.main4().zip(nic.gateway4) else {
            return routes;
        };
        let is_public = main
            .address4
            .is_some_and(|it| !is_private(&networks, it.address));
        let mut others = self.network.nics.iter();
        let other = others.find(|other| other.mac != main.mac && other.gateway4.is_some());
        if is_public && other.is_some_and(|other| other.mac == nic.mac) {
            for network in networks.into_iter().filter(|it| it.address.is_ipv4()) {
                if routes.iter().all(|known| known.to != network) {
                    routes.push(route(network, gateway.into()));
                }
            }
        }
        routes
    }
}

/// An interface, or several that are a bond.
struct Team<'n> {
    /// The interface whose addresses the bond gets.
    main: &'n Nic,
    members: Vec<&'n Nic>,
}

fn name(names: &BTreeMap<Mac, String>, nic: &Nic) -> String {
    names.get(&nic.mac).cloned().unwrap_or_default()
}

fn route(to: Prefix, via: IpAddr) -> RouteStep {
    RouteStep {
        to,
        via: Some(via).filter(|via| !via.is_unspecified()),
        on_link: false,
        metric: None,
    }
}

fn interface(nic: &Nic, name: String) -> Result<Interface> {
    let mut interface: Interface = parse(json!({ "mac": nic.mac }))?;
    interface.name = Some(name);
    interface.infiniband = nic.is_infiniband;
    Ok(interface)
}

fn bond(name: &str, members: &[String]) -> Result<Bond> {
    let mut bond: Bond = parse(json!({ "name": name, "members": members, "mode": "802.3ad" }))?;
    bond.miimon = Some(MIIMON);
    bond.lacp_rate = Some(LacpRate::Fast);
    bond.xmit_hash_policy = Some(XmitHashPolicy::Layer34);
    Ok(bond)
}
