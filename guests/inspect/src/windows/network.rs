//! The network interfaces: `Services\Tcpip\Parameters\Interfaces` (Microsoft, "TCP/IP and NBT configuration
//! parameters").

use diskfs_registry::Key;
use serde::Serialize;

use super::hives::{Hives, OpenHive};
use crate::network::{Interface, Network, with_prefix};

const INTERFACES: &str = r"Services\Tcpip\Parameters\Interfaces";

/// The class of network adapters, below which connections have the names that people see.
const CONNECTIONS: &str = r"Control\Network\{4D36E972-E325-11CE-BFC1-08002BE10318}";

/// Each device that was ever there leaves one.
const MAX_INTERFACES: usize = 10_000;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Adapter {
    /// Its GUID, in braces.
    pub id: String,
    /// What people see: `Ethernet`.
    pub name: Option<String>,
    /// Whether DHCP configures it.
    pub dhcp: bool,
    /// Its addresses with their masks, as `192.0.2.7/255.255.255.0`; those of the last lease with DHCP.
    pub addresses: Vec<String>,
    /// Its gateways.
    pub gateways: Vec<String>,
    /// Its DNS servers: its own, or else those of the last lease.
    pub dns_servers: Vec<String>,
}

pub(super) fn of(hives: &Hives<'_>) -> Vec<Adapter> {
    let (Some(system), Some(key)) = (&hives.system, hives.control(INTERFACES)) else {
        return Vec::new();
    };
    system.came_from("interfaces");
    let keys = system.subkeys(&key, MAX_INTERFACES);
    let interfaces = keys.iter().map(|key| interface(hives, system, key));
    interfaces
        .filter(|found| found.dhcp || !found.addresses.is_empty())
        .collect()
}

fn interface(hives: &Hives<'_>, system: &OpenHive<'_>, key: &Key<'_>) -> Adapter {
    let id = key.name();
    let connection = hives.control(&format!(r"{CONNECTIONS}\{id}\Connection"));
    let dhcp = system.number_of(key, "EnableDHCP") == Some(1);
    let texts = |fixed: &str, leased: &str| system.texts_of(key, if dhcp { leased } else { fixed });
    let addresses = texts("IPAddress", "DhcpIPAddress");
    let masks = texts("SubnetMask", "DhcpSubnetMask");
    let with_masks = addresses
        .iter()
        .zip(&masks)
        .filter(|(address, _)| *address != "0.0.0.0");
    let servers = ["NameServer", "DhcpNameServer"]
        .iter()
        .find_map(|name| system.text_of(key, name));
    Adapter {
        name: connection.and_then(|key| system.text_of(&key, "Name")),
        addresses: with_masks
            .map(|(address, mask)| format!("{address}/{mask}"))
            .collect(),
        gateways: texts("DefaultGateway", "DhcpDefaultGateway"),
        dns_servers: servers.iter().flat_map(|servers| list(servers)).collect(),
        dhcp,
        id,
    }
}

/// The same, as interfaces of all systems are told.
pub(super) fn as_of_all_systems(adapters: &[Adapter], file: &str) -> Network {
    fn own(adapter: &Adapter) -> impl Iterator<Item = &Adapter> {
        Some(adapter).filter(|adapter| !adapter.dhcp).into_iter()
    }
    let interface = |adapter: &Adapter| Interface {
        name: Some(adapter.name.clone().unwrap_or_else(|| adapter.id.clone())),
        dhcp4: adapter.dhcp,
        // Those of a lease are none that the guest was told.
        addresses: own(adapter)
            .flat_map(|it| &it.addresses)
            .map(|it| prefixed(it))
            .collect(),
        gateways: own(adapter).flat_map(|it| it.gateways.clone()).collect(),
        dns: adapter.dns_servers.clone(),
        configured_by: "windows",
        file: file.to_owned(),
        ..Interface::default()
    };
    Network {
        interfaces: adapters.iter().map(interface).collect(),
        ..Network::default()
    }
}

/// `192.0.2.7/24` of `192.0.2.7/255.255.255.0`.
fn prefixed(address: &str) -> String {
    match address.split_once('/') {
        Some((address, mask)) => with_prefix(address, Some(mask)),
        None => address.to_owned(),
    }
}

/// What commas or blanks part.
fn list(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    parts.map(str::to_owned)
}
