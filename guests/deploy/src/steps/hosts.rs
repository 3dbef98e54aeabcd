//! The step `hosts`: entries of hosts(5).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::with_line;
use super::hostname::is_name;
use diskfs_disk::Result;

const HOSTS: &str = "/etc/hosts";

/// Addresses with their names. The first line with the same address gets these names and keeps its
/// comment. A missing line is added. Other lines stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Hosts(pub Vec<Host>);

/// An IP address and its host names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The IP address.
    pub address: IpAddr,
    /// The host names. The first one is the canonical name.
    pub names: Vec<String>,
}

impl Hosts {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let mut text = guest.stage.text(HOSTS)?.unwrap_or_default();
        for host in &self.0 {
            let wrong = host.names.iter().find(|name| !is_name(name));
            if let Some(name) = wrong {
                return Err(guest.invalid(format!(
                    "invalid host name `{name}`: expected letters, digits, hyphens and dots"
                )));
            }
            if host.names.is_empty() {
                return Err(
                    guest.invalid(format!("missing names for the address {}", host.address))
                );
            }
            text = with_host(&text, host);
        }
        guest.stage.write_text(HOSTS, &text)
    }
}

/// Replaces the old host name by the new one in the guest's own lines, so that programs that look
/// up the host name, such as sudo, find an address. Own lines are those of loopback addresses and
/// of the addresses of the guest's interfaces.
pub(super) fn rename(guest: &mut Guest, old: &str, new: &str) -> Result<()> {
    let short = old.split('.').next().unwrap_or(old);
    // Every host has the name localhost.
    if old == new || short.eq_ignore_ascii_case("localhost") || !guest.stage.is_file(HOSTS)? {
        return Ok(());
    }
    let Some(text) = guest.stage.text(HOSTS)? else {
        return Ok(());
    };
    let own = diskfs_inspect::own_addresses(guest.stage.guest());
    let is_own = |address: IpAddr| address.is_loopback() || own.contains(&address);
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match address(line).filter(|address| is_own(*address)) {
            Some(address) => out.push_str(&renamed(line, address, old, new)),
            None => out.push_str(line),
        }
    }
    guest.stage.write_text(HOSTS, &out)
}

/// Returns the line with the old name replaced by the new one.
fn renamed(line: &str, address: IpAddr, old: &str, new: &str) -> String {
    let fields = line.split('#').next().unwrap_or_default();
    let before: Vec<&str> = fields.split_whitespace().skip(1).collect();
    let (old_short, new_short) = (short_of(old), short_of(new));
    let mut names: Vec<String> = Vec::new();
    let mut first = None;
    for name in before {
        let is_old = short_of(name).eq_ignore_ascii_case(old_short);
        let name = match name.split_once('.') {
            _ if !is_old => name.to_owned(),
            None => new_short.to_owned(),
            // The old domain stays if the new name has none.
            Some((_, domain)) if new == new_short => format!("{new_short}.{domain}"),
            Some(_) => new.to_owned(),
        };
        if is_old && first.is_none() {
            first = Some(names.len());
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let Some(first) = first else {
        return line.to_owned();
    };
    if !names.iter().any(|name| name == new) {
        // The canonical name comes before the short one.
        let at = if new == new_short { first + 1 } else { first };
        names.insert(at.min(names.len()), new.to_owned());
    }
    changed(line, &Host { address, names })
}

fn short_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn with_host(text: &str, host: &Host) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_done = false;
    for line in text.split_inclusive('\n') {
        if is_done || address(line) != Some(host.address) {
            out.push_str(line);
            continue;
        }
        is_done = true;
        out.push_str(&changed(line, host));
    }
    if is_done {
        return out;
    }
    let line = format!("{}\t{}", host.address, host.names.join(" "));
    with_line(out, &line)
}

fn address(line: &str) -> Option<IpAddr> {
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the line with other names. It keeps its spaces, comment and line end.
fn changed(line: &str, host: &Host) -> String {
    let content = line.trim_end_matches(['\n', '\r']);
    let end = line.get(content.len()..).unwrap_or_default();
    let (fields, comment) = match content.find('#') {
        Some(at) => content.split_at_checked(at).unwrap_or((content, "")),
        None => (content, ""),
    };
    let mut names = fields.split_whitespace().skip(1);
    if names.by_ref().eq(host.names.iter().map(String::as_str)) {
        return line.to_owned();
    }
    let address = fields.trim_start();
    let address = address.split_whitespace().next().unwrap_or_default();
    let start = fields.find(address).unwrap_or(0) + address.len();
    let gap_bytes = fields
        .get(start..)
        .map_or(0, |rest| rest.len() - rest.trim_start().len());
    let head = fields.get(..start + gap_bytes).unwrap_or(fields);
    // A line with an address alone has no gap after it.
    let gap = if gap_bytes == 0 { "\t" } else { "" };
    let names = host.names.join(" ");
    let before_comment = if comment.is_empty() { "" } else { " " };
    format!("{head}{gap}{names}{before_comment}{comment}{end}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, guest, text};

    const GUEST: &str = "-- /etc/hosts --\n# mine\n127.0.0.1\tlocalhost\n127.0.1.1   old.example.org old # by the installer\n\n10.0.0.9 db\n10.0.0.9 db-too\n";

    #[test]
    fn only_its_line_changes() {
        let steps = "- hosts:\n  - {address: 127.0.1.1, names: [web1.example.org, web1]}\n  - {address: \"2001:db8::1\", names: [web1]}";
        let guest = after(GUEST, steps);
        assert_eq!(
            text(&guest, "/etc/hosts"),
            "# mine\n127.0.0.1\tlocalhost\n127.0.1.1   web1.example.org web1 # by the installer\n\n10.0.0.9 db\n10.0.0.9 db-too\n2001:db8::1\tweb1\n"
        );
    }

    #[test]
    fn an_address_alone_gets_names() {
        let step = "- hosts: [{address: 127.0.1.1, names: [web1]}]";
        let guest = after("-- /etc/hosts --\n127.0.1.1\n", step);
        assert_eq!(text(&guest, "/etc/hosts"), "127.0.1.1\tweb1\n");
    }

    #[test]
    fn names_are_names() {
        let step = "- hosts:\n  - {address: 10.0.0.1, names: [\"a\\n0.0.0.0 b\"]}";
        assert!(apply(&mut guest(GUEST), step).is_err());
    }
}
