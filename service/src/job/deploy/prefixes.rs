//! Private networks.

use std::net::{IpAddr, Ipv4Addr};

use diskfs_deploy::Prefix;

/// The private networks of the host-deployer: those of RFC 1918, and the special ones of RFC 6598,
/// RFC 6890 and RFC 2544.
const PRIVATE: [([u8; 4], u8); 6] = [
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
];

/// Returns the private networks, with those of the host.
pub(super) fn private(of_host: &[Prefix]) -> Vec<Prefix> {
    let usual = PRIVATE.iter();
    let usual =
        usual.filter_map(|(address, len)| Prefix::new(Ipv4Addr::from(*address).into(), *len));
    usual.chain(of_host.iter().copied()).collect()
}

/// Returns true if one of the networks contains the address.
pub(super) fn is_private(networks: &[Prefix], address: IpAddr) -> bool {
    networks.iter().any(|network| network.has(address))
}
