//! The names of a guest: host name, entries of hosts(5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diskfs_deploy::{Host, Hostname, Hosts, Step};
use diskfs_disk::Result;

use super::super::guest::Guest;
use super::Deploy;
use super::prefixes::{is_private, private};

/// The domain that the host-deployer sets where there is none.
const DEFAULT_DOMAIN: &str = "cloud.onecloud.io";

/// The longest /etc/hosts that is looked at.
const MAX_BYTES: u64 = 1 << 20;

impl Deploy {
    /// Adds the steps for the host name and for /etc/hosts. A name that no system takes is noted
    /// and left out, as the host-deployer ignores such an error.
    pub(super) fn add_names(
        &self,
        guest: &Guest,
        steps: &mut Vec<Step>,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let short = self.hostname.split('.').next().unwrap_or_default();
        if !is_label(short) {
            notes.push(format!(
                "invalid host name `{}`: it was not set",
                self.hostname
            ));
            return Ok(());
        }
        steps.push(Step::Hostname(Hostname(short.to_owned())));
        let hosts = self.hosts(guest, short)?;
        if !hosts.is_empty() {
            steps.push(Step::Hosts(Hosts(hosts)));
        }
        Ok(())
    }

    fn hosts(&self, guest: &Guest, short: &str) -> Result<Vec<Host>> {
        let domain = self.domain.trim_matches('.');
        let has_domain = !domain.is_empty() && domain != DEFAULT_DOMAIN;
        let mut names = vec![short.to_owned()];
        if has_domain && domain.split('.').all(is_label) {
            names.insert(0, format!("{short}.{domain}"));
        }
        let addresses = self.own_addresses();
        let text = guest.filesystem.exists("/etc/hosts")?;
        let text = text.then(|| guest.filesystem.read_at_most("/etc/hosts", MAX_BYTES));
        let text = text.transpose()?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut hosts = Vec::new();
        if !has_localhost(&text, Ipv4Addr::LOCALHOST.into()) {
            hosts.push(host(Ipv4Addr::LOCALHOST.into(), &["localhost"]));
        }
        let has_v6 = addresses.iter().any(IpAddr::is_ipv6);
        if has_v6 && !has_localhost(&text, Ipv6Addr::LOCALHOST.into()) {
            let names = ["localhost", "ip6-localhost", "ip6-loopback"];
            hosts.push(host(Ipv6Addr::LOCALHOST.into(), &names));
        }
        hosts.extend(addresses.into_iter().map(|address| Host {
            address,
            names: names.clone(),
        }));
        Ok(hosts)
    }

    /// Returns the addresses by which the guest knows itself: private IPv4 addresses, and IPv6
    /// addresses.
    fn own_addresses(&self) -> Vec<IpAddr> {
        let networks = private(&self.policy.private_prefixes);
        let mut addresses = Vec::new();
        for nic in &self.network.nics {
            let both = [nic.address4, nic.address6].into_iter().flatten();
            for address in both.map(|prefix| prefix.address) {
                let is_own = address.is_ipv6() || is_private(&networks, address);
                if is_own && !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        addresses
    }
}

fn host(address: IpAddr, names: &[&str]) -> Host {
    Host {
        address,
        names: names.iter().map(|&name| name.to_owned()).collect(),
    }
}

fn has_localhost(text: &str, address: IpAddr) -> bool {
    text.lines().any(|line| {
        let mut words = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let is_it = words.next().is_some_and(|word| word.parse() == Ok(address));
        is_it && words.any(|word| word == "localhost")
    })
}

/// Returns true for a label of a host name (RFC 1123, section 2.1).
fn is_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let has_ends = !label.starts_with('-') && !label.ends_with('-');
    (1..=63).contains(&label.len()) && has_ends && label.bytes().all(is_part)
}
