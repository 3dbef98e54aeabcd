//! The network interfaces: `Services\Tcpip\Parameters\Interfaces` (Microsoft, "TCP/IP and NBT
//! configuration parameters").

use diskfs_registry::Key;
use serde::Serialize;

use super::hives::{Hives, OpenHive};
use crate::network::{Interface, Network, with_prefix};

const INTERFACES: &str = r"Services\Tcpip\Parameters\Interfaces";

/// The class of network adapters. The keys below it have the names of connections that people see.
const CONNECTIONS: &str = r"Control\Network\{4D36E972-E325-11CE-BFC1-08002BE10318}";

/// The limit on interfaces; every device that was ever present leaves one.
const MAX_INTERFACES: usize = 10_000;

/// A network interface of Windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Adapter {
    /// The GUID, in braces.
    pub id: String,
    /// The name that people see: `Ethernet`.
    pub name: Option<String>,
    /// True if DHCP configures it.
    pub dhcp: bool,
    /// The addresses with their masks: `192.0.2.7/255.255.255.0`; with DHCP, those of the last
    /// lease.
    pub addresses: Vec<String>,
    /// The gateways of the default routes.
    pub gateways: Vec<String>,
    /// The configured DNS servers, or else those of the last lease.
    pub dns_servers: Vec<String>,
}

pub(super) fn of(hives: &Hives<'_>) -> Vec<Adapter> {
    let (Some(system), Some(key)) = (&hives.system, hives.control(INTERFACES)) else {
        return Vec::new();
    };
    system.add_source("interfaces");
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

/// Converts the interfaces to the form that is common to all systems.
pub(super) fn as_of_all_systems(adapters: &[Adapter], file: &str) -> Network {
    fn own(adapter: &Adapter) -> impl Iterator<Item = &Adapter> {
        Some(adapter).filter(|adapter| !adapter.dhcp).into_iter()
    }
    let interface = |adapter: &Adapter| Interface {
        name: Some(adapter.name.clone().unwrap_or_else(|| adapter.id.clone())),
        dhcp4: adapter.dhcp,
        // The addresses of a lease are not part of the configuration.
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

/// Returns `192.0.2.7/24` for `192.0.2.7/255.255.255.0`.
fn prefixed(address: &str) -> String {
    match address.split_once('/') {
        Some((address, mask)) => with_prefix(address, Some(mask)),
        None => address.to_owned(),
    }
}

/// Splits a list at commas or spaces.
fn list(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    parts.map(str::to_owned)
}
