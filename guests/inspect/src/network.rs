//! The network configuration of the guest by interface, for all network managers.
//!
//! An interface that several managers configure is listed several times: which manager runs is a
//! question of its services.

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

/// The limit on interfaces of one manager. Each new interface is compared with the others.
const MAX_INTERFACES: usize = 4096;

/// The limit on gateways of an interface.
const MAX_GATEWAYS: usize = 64;

/// The network configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Network {
    /// The interfaces, in the order of the files that name them.
    pub interfaces: Vec<Interface>,
    /// The DNS servers in `/etc/resolv.conf`, if that is a regular file of the guest.
    pub dns: Vec<String>,
    /// The DNS search domains.
    pub search: Vec<String>,
}

/// A network interface, as one file configures it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Interface {
    /// The name, or a pattern for names.
    pub name: Option<String>,
    /// The MAC address that identifies the interface, or that is assigned to it: lower case, with
    /// colons.
    pub mac: Option<String>,
    /// The kind of interface, if it is not a plain one: `bond`, `bridge`, `vlan`, `wifi`, ...
    pub kind: Option<String>,
    /// True if IPv4 addresses come from DHCP.
    pub dhcp4: bool,
    /// True if IPv6 addresses come from DHCP.
    pub dhcp6: bool,
    /// The static addresses, with the prefix length if it is known: `192.0.2.7/24`.
    pub addresses: Vec<String>,
    /// The gateways of the default routes.
    pub gateways: Vec<String>,
    /// The DNS servers.
    pub dns: Vec<String>,
    /// The DNS search domains.
    pub search: Vec<String>,
    /// The routes, without the default routes.
    pub routes: Vec<Route>,
    /// The MTU in bytes.
    pub mtu_bytes: Option<u32>,
    /// The VLAN ID.
    pub vlan: Option<u16>,
    /// The interface below a VLAN, or the bond or bridge that this interface is a member of.
    pub parent: Option<String>,
    /// The members of a bond or bridge.
    pub members: Vec<String>,
    /// The network manager: `netplan`, `ifupdown`, `NetworkManager`, ...
    pub configured_by: &'static str,
    /// The file with the configuration.
    pub file: String,
}

/// A route to a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Route {
    /// The destination: `198.51.100.0/24`.
    pub to: String,
    /// The gateway, if there is one.
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

    /// Adds a route; for a default route, adds its gateway.
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

/// Returns the interface with a name, which is added if it is new; `None` if there are too many.
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

/// A function that reads the files of one network manager.
type ReadInterfaces = fn(&Files<'_>) -> Vec<Interface>;

/// The readers of all network managers.
const READERS: [ReadInterfaces; 10] = [
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

/// Reads the network configuration.
pub(super) fn of(files: &Files<'_>) -> Network {
    let interfaces = READERS.iter().flat_map(|read| read(files));
    let interfaces: Vec<Interface> = interfaces.filter(|it| !it.is_loopback()).collect();
    for interface in &interfaces {
        files.add_source("network", &interface.file, None);
    }
    let (dns, search) = resolver::of(files);
    Network {
        interfaces,
        dns,
        search,
    }
}

/// Sets the manager and the file of interfaces.
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
    fn who_sets_it_up_is_reported_and_the_loopback_is_left_out() {
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
