//! The values of network settings: address prefixes and MAC addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An IP address with the prefix length of its network: `192.0.2.10/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// The IP address.
    pub address: IpAddr,
    len: u8,
}

impl Prefix {
    /// Returns a prefix, or `None` if the length exceeds that of the address.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        (len <= bits(address)).then_some(Self { address, len })
    }

    /// Returns the prefix of a single address.
    pub fn of_host(address: IpAddr) -> Self {
        Self {
            address,
            len: bits(address),
        }
    }

    /// Returns the prefix length in bits.
    pub fn bits(&self) -> u8 {
        self.len
    }

    /// Returns true for the prefix of length 0, which covers all addresses.
    pub fn is_default(&self) -> bool {
        self.len == 0
    }

    /// Returns true if the network contains the address.
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = self.mask_v4().to_bits();
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX
                    .checked_shl(128_u32.saturating_sub(self.len.into()))
                    .unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }

    /// Returns the netmask of an IPv4 network: `255.255.255.0`.
    pub fn mask_v4(&self) -> Ipv4Addr {
        let host_bits = 32_u32.saturating_sub(self.len.into());
        Ipv4Addr::from_bits(u32::MAX.checked_shl(host_bits).unwrap_or(0))
    }

    /// Returns true if bits beyond the prefix are set: then it is the address of a host, not a
    /// network.
    pub fn has_host_bits(&self) -> bool {
        match self.address {
            IpAddr::V4(own) => own.to_bits() & !self.mask_v4().to_bits() != 0,
            IpAddr::V6(own) => {
                own.to_bits().checked_shl(self.len.into()).unwrap_or(0) != 0 && self.len < 128
            }
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = match text {
            "default" | "0.0.0.0/0" => Self::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            "::/0" => Self::new(Ipv6Addr::UNSPECIFIED.into(), 0),
            text => text.split_once('/').and_then(|(address, len)| {
                let is_number = len.bytes().all(|byte| byte.is_ascii_digit());
                let len = is_number.then(|| len.parse().ok())??;
                Self::new(address.parse().ok()?, len)
            }),
        };
        whole.ok_or_else(|| {
            format!(
                "invalid address `{text}`: expected an address with a prefix length, as in \
             192.0.2.10/24"
            )
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

/// A hardware (MAC) address in lower case with colons: 6 bytes for Ethernet, 8 or 20 for
/// InfiniBand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Mac(String);

impl Mac {
    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the length of the address in bytes.
    pub fn len_bytes(&self) -> usize {
        self.0.split(':').count()
    }

    /// Returns true for the address of an InfiniBand port.
    pub fn is_infiniband(&self) -> bool {
        self.len_bytes() != 6
    }

    /// Returns the last 8 bytes, which identify an InfiniBand port: the bytes before them change at
    /// each boot.
    pub(super) fn port(&self) -> &str {
        let from = self.0.len().saturating_sub(8 * 3 - 1);
        self.0.get(from..).unwrap_or_default()
    }

    fn is_of_many(&self) -> bool {
        let first = self.0.split(':').next().unwrap_or_default();
        u8::from_str_radix(first, 16).is_ok_and(|byte| byte & 1 == 1)
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mac = Self(text.replace('-', ":").to_ascii_lowercase());
        let is_byte = |byte: &str| byte.len() == 2 && byte.bytes().all(|b| b.is_ascii_hexdigit());
        let is_whole = matches!(mac.len_bytes(), 6 | 8 | 20) && mac.0.split(':').all(is_byte);
        if !is_whole {
            return Err(format!(
                "invalid hardware address `{text}`: expected 6, 8 or 20 bytes, as in \
                 52:54:00:12:34:56"
            ));
        }
        let is_ethernet = mac.len_bytes() == 6;
        if is_ethernet && (mac.is_of_many() || mac.0 == "00:00:00:00:00:00") {
            return Err(format!(
                "invalid hardware address `{text}`: expected the address of a single interface, \
                 not multicast or zero"
            ));
        }
        Ok(mac)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_compared() {
        let prefix: Prefix = "192.0.2.10/24".parse().unwrap();
        assert_eq!(prefix.mask_v4().to_string(), "255.255.255.0");
        assert!(prefix.has("192.0.2.1".parse().unwrap()) && prefix.has_host_bits());
        assert!(!prefix.has("192.0.3.1".parse().unwrap()));
        assert!(!prefix.has("::1".parse().unwrap()));
        let all: Prefix = "::/0".parse().unwrap();
        assert!(all.is_default() && all.has("2001:db8::1".parse().unwrap()));
        assert!(!all.has_host_bits());
        let host = Prefix::of_host("2001:db8::1".parse().unwrap());
        assert_eq!(host.to_string(), "2001:db8::1/128");
        assert!(!host.has_host_bits());
        for none in [
            "192.0.2.1",
            "192.0.2.1/33",
            "::1/129",
            "192.0.2.1/+4",
            "a/1",
            "1.2.3.4/",
        ] {
            assert!(none.parse::<Prefix>().is_err(), "{none}");
        }
    }

    #[test]
    fn hardware_addresses_have_one_form() {
        let mac: Mac = "52-54-00-AB-cd-01".parse().unwrap();
        assert_eq!(mac.as_str(), "52:54:00:ab:cd:01");
        let many = "80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:12:34:56";
        let many: Mac = many.parse().unwrap();
        assert_eq!(many.port(), "e4:1d:2d:03:00:12:34:56");
        for none in ["52:54:00", "01:00:5e:00:00:01", "00:00:00:00:00:00", ""] {
            assert!(none.parse::<Mac>().is_err(), "{none}");
        }
    }
}
