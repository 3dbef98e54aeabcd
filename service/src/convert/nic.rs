//! The conversion of network interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use diskfs_deploy::{Mac, Prefix};

use crate::failure::Failure;
use crate::job::{Nic, Route};
use crate::proto::apis;

/// Returns an interface.
pub(super) fn nic(nic: apis::Nic) -> Result<Nic, Failure> {
    let place = format!("of the interface `{}`", nic.mac);
    let wrong =
        |what: &str, text: &str| Failure::invalid(format!("invalid {what} `{text}` {place}"));
    let mac =
        |text: &str| Mac::try_from(text.to_owned()).map_err(|_| wrong("hardware address", text));
    let address4: Option<Ipv4Addr> = parsed(&nic.ip).map_err(|()| wrong("address", &nic.ip))?;
    let address6: Option<Ipv6Addr> = parsed(&nic.ip6).map_err(|()| wrong("address", &nic.ip6))?;
    let servers = nic
        .dns
        .split([',', ' '])
        .map(str::trim)
        .filter(|it| !it.is_empty());
    let servers = servers.map(|it| it.parse::<IpAddr>().map_err(|_| wrong("name server", it)));
    let number = |what: &str, number: i64| {
        u32::try_from(number).map_err(|_| wrong(what, &number.to_string()))
    };
    Ok(Nic {
        mac: mac(&nic.mac)?,
        index: number("index", nic.index.into())?,
        address4: prefix(address4.map(IpAddr::V4), nic.masklen)
            .ok_or_else(|| wrong("prefix length", &nic.masklen.to_string()))?,
        gateway4: parsed(&nic.gateway).map_err(|()| wrong("gateway", &nic.gateway))?,
        address6: prefix(address6.map(IpAddr::V6), nic.masklen6)
            .ok_or_else(|| wrong("prefix length", &nic.masklen6.to_string()))?,
        gateway6: parsed(&nic.gateway6).map_err(|()| wrong("gateway", &nic.gateway6))?,
        nameservers: servers.collect::<Result<_, _>>()?,
        routes: routes(&nic.routes).ok_or_else(|| wrong("routes", &nic.routes))?,
        team_with: match &*nic.team_with {
            "" => None,
            other => Some(mac(other)?),
        },
        vlan: u16::try_from(nic.vlan)
            .ok()
            .filter(|id| *id < 4095)
            .unwrap_or_default(),
        mtu: Some(nic.mtu)
            .filter(|mtu| *mtu > 0)
            .map(|mtu| number("MTU", mtu))
            .transpose()?,
        is_static: nic.manual,
        is_virtual: nic.r#virtual,
        is_infiniband: nic.nic_type == "infiniband",
        is_default: nic.is_default,
        driver: nic.driver,
        domain: nic.domain,
    })
}

/// Parses an address; an empty text is none.
fn parsed<T: FromStr>(text: &str) -> Result<Option<T>, ()> {
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| ()),
    }
}

/// Returns the address with its prefix length, or `None` for an invalid length.
#[expect(
    clippy::option_option,
    reason = "without an address every length is valid"
)]
fn prefix(address: Option<IpAddr>, len: i32) -> Option<Option<Prefix>> {
    let Some(address) = address else {
        return Some(None);
    };
    let len = u8::try_from(len).ok()?;
    if len == 0 {
        return Some(Some(Prefix::of_host(address)));
    }
    Prefix::new(address, len).map(Some)
}

/// Parses routes: a JSON array of pairs of a network and a gateway.
fn routes(text: &str) -> Option<Vec<Route>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    let pairs: Vec<Vec<String>> = serde_json::from_str::<Option<_>>(text)
        .ok()?
        .unwrap_or_default();
    let route = |pair: &Vec<String>| {
        let (to, via) = pair.first().zip(pair.get(1))?;
        let to = if to.contains('/') {
            to.parse().ok()?
        } else {
            Prefix::of_host(to.parse().ok()?)
        };
        Some(Route {
            to,
            via: via.parse().ok()?,
        })
    };
    pairs.iter().map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(change: impl FnOnce(&mut apis::Nic)) -> Result<Nic, Failure> {
        let mut message = apis::Nic {
            mac: "00:24:C7:16:80:F2".to_owned(),
            ..apis::Nic::default()
        };
        change(&mut message);
        nic(message)
    }

    #[test]
    fn addresses_are_parsed() {
        let nic = of(|nic| {
            nic.ip = "10.0.0.5".to_owned();
            nic.masklen = 16;
            nic.dns = "8.8.8.8,fc00::3fe:1".to_owned();
            nic.routes = r#"[["10.1.0.0/16","10.0.0.1"],["192.0.2.1","10.0.0.1"]]"#.to_owned();
        })
        .unwrap();
        assert_eq!(nic.mac.as_str(), "00:24:c7:16:80:f2");
        assert_eq!(nic.address4.unwrap().bits(), 16);
        assert_eq!(nic.nameservers.len(), 2);
        assert_eq!(nic.routes[1].to.bits(), 32);
    }

    #[test]
    fn invalid_values_are_named() {
        for (change, word) in [
            (
                &mut (|nic: &mut apis::Nic| nic.ip = "10.0.0.256".to_owned())
                    as &mut dyn FnMut(&mut apis::Nic),
                "10.0.0.256",
            ),
            (&mut |nic| nic.dns = "dns.example".to_owned(), "name server"),
            (&mut |nic| nic.routes = "x".to_owned(), "routes"),
            (&mut |nic| nic.mac = "x".to_owned(), "hardware address"),
            (
                &mut |nic| (nic.ip, nic.masklen) = ("10.0.0.5".to_owned(), 33),
                "prefix length",
            ),
        ] {
            let failure = of(|nic| change(nic)).unwrap_err();
            assert!(failure.message.contains(word), "{}", failure.message);
        }
    }
}
