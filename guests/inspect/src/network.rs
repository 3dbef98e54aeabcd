//! How the guest's network is set up, by interface, whatever sets it up.
//!
//! What several of them say is told several times: which of them runs is a matter of its services.

mod cloud_init;
mod freebsd;
mod gentoo;
mod ifcfg;
mod ifupdown;
mod netctl;
mod netplan;
mod network_manager;
mod networkd;
mod resolver;
mod uci;
mod words;

use serde::Serialize;

pub(super) use words::with_prefix;

use super::files::Files;

/// More than one file sets up. Each new one is looked for among the others.
const MAX_INTERFACES: usize = 4096;

/// More than an interface has.
const MAX_GATEWAYS: usize = 64;

/// How the network is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Network {
    /// The interfaces, in the order of the files that name them.
    pub interfaces: Vec<Interface>,
    /// The name servers of `/etc/resolv.conf`, where it is a file of the guest's own.
    pub dns: Vec<String>,
    /// The domains that it searches names in.
    pub search: Vec<String>,
}

/// A network interface, as one file sets it up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Interface {
    /// The name, or the pattern that names have to match.
    pub name: Option<String>,
    /// The hardware's address that it is told by, or is given, in lower case with colons.
    pub mac: Option<String>,
    /// What it is besides a plain one: `bond`, `bridge`, `vlan`, `wifi`, ...
    pub kind: Option<String>,
    /// Whether IPv4 addresses come by DHCP.
    pub dhcp4: bool,
    /// Whether IPv6 addresses come by DHCP.
    pub dhcp6: bool,
    /// Its own addresses, with the length of their prefixes where that is said: `192.0.2.7/24`.
    pub addresses: Vec<String>,
    /// The default routes' gateways.
    pub gateways: Vec<String>,
    /// Name servers.
    pub dns: Vec<String>,
    /// Domains that names are searched in.
    pub search: Vec<String>,
    /// Routes besides the default ones.
    pub routes: Vec<Route>,
    /// The largest packet in bytes.
    pub mtu_bytes: Option<u32>,
    /// The number of a VLAN.
    pub vlan: Option<u16>,
    /// What a VLAN is on, or the bond or bridge that this is a part of.
    pub parent: Option<String>,
    /// The parts of a bond or bridge.
    pub members: Vec<String>,
    /// What sets it up: `netplan`, `ifupdown`, `NetworkManager`, ...
    pub configured_by: &'static str,
    /// The file that says so.
    pub file: String,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Route {
    /// Where it leads to: `198.51.100.0/24`.
    pub to: String,
    /// The gateway, where there is one.
    pub via: Option<String>,
}

impl Interface {
    fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }

    fn is_loopback(&self) -> bool {
        matches!(self.name.as_deref(), Some("lo" | "lo0" | "loopback"))
    }

    /// Adds a route; a default one is a gateway.
    fn add_route(&mut self, to: &str, via: Option<&str>) {
        let is_default = matches!(to, "default" | "0.0.0.0/0" | "0.0.0.0" | "::/0" | "::");
        match via {
            Some(gateway) if is_default => self.add_gateway(gateway),
            _ => self.routes.push(Route {
                to: to.to_owned(),
                via: via.map(str::to_owned),
            }),
        }
    }

    fn add_gateway(&mut self, gateway: &str) {
        let has_room = self.gateways.len() < MAX_GATEWAYS;
        if has_room && !gateway.is_empty() && !self.gateways.iter().any(|known| known == gateway) {
            self.gateways.push(gateway.to_owned());
        }
    }
}

/// The one of a name, which is added where it is new; `None` where there are too many.
fn named<'f>(found: &'f mut Vec<Interface>, name: &str) -> Option<&'f mut Interface> {
    let known = found.iter().position(|it| it.name.as_deref() == Some(name));
    let index = known.unwrap_or(found.len());
    if index == found.len() {
        if index >= MAX_INTERFACES {
            return None;
        }
        found.push(Interface::named(name));
    }
    found.get_mut(index)
}

/// What reads the files of one way to set a network up.
type Read = fn(&Files<'_>) -> Vec<Interface>;

/// All of them.
const READERS: [Read; 10] = [
    ifupdown::of,
    netplan::of,
    network_manager::of,
    networkd::of,
    ifcfg::of,
    cloud_init::of,
    netctl::of,
    gentoo::of,
    uci::of,
    freebsd::of,
];

/// Reads it.
pub(super) fn of(files: &Files<'_>) -> Network {
    let interfaces = READERS.iter().flat_map(|read| read(files));
    let interfaces: Vec<Interface> = interfaces.filter(|it| !it.is_loopback()).collect();
    for interface in &interfaces {
        files.came_from("network", &interface.file, None);
    }
    let (dns, search) = resolver::of(files);
    Network {
        interfaces,
        dns,
        search,
    }
}

/// Says who sets interfaces up, and in which file.
fn signed(
    configured_by: &'static str,
    file: &str,
    interfaces: impl IntoIterator<Item = Interface>,
) -> Vec<Interface> {
    let sign = |interface| Interface {
        configured_by,
        file: file.to_owned(),
        ..interface
    };
    interfaces.into_iter().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn who_sets_it_up_is_told_and_the_loopback_is_left_out() {
        let tree = guest(&[
            (
                "/etc/network/interfaces",
                "iface lo inet loopback\niface eth0 inet dhcp\n",
            ),
            (
                "/etc/resolv.conf",
                "# x\nnameserver 192.0.2.1\nsearch a.example b.example\n",
            ),
        ]);
        let files = Files::new(&tree);
        let network = of(&files);
        let [eth0] = &network.interfaces[..] else {
            panic!("{network:?}")
        };
        assert_eq!((&eth0.name, eth0.dhcp4), (&Some("eth0".to_owned()), true));
        assert_eq!(
            (eth0.configured_by, &*eth0.file),
            ("ifupdown", "/etc/network/interfaces")
        );
        assert_eq!(network.dns, ["192.0.2.1"]);
        assert_eq!(network.search, ["a.example", "b.example"]);
    }
}
