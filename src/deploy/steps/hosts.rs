//! Names that the guest knows by itself: hosts(5).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::with_line;
use super::hostname::is_name;
use crate::Result;

const HOSTS: &str = "/etc/hosts";

/// Addresses with their names. The first line of an address gets these names, and keeps its comment; one that is missing
/// is added. Other lines stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Hosts(pub Vec<Host>);

/// An address and its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The address.
    pub address: IpAddr,
    /// The names, the canonical one first.
    pub names: Vec<String>,
}

impl Hosts {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let mut text = guest.stage.text(HOSTS)?.unwrap_or_default();
        for host in &self.0 {
            let wrong = host.names.iter().find(|name| !is_name(name));
            if let Some(name) = wrong {
                return Err(guest.invalid(format!("`{name}` is no name of a host")));
            }
            if host.names.is_empty() {
                return Err(guest.invalid(format!("{} has no names", host.address)));
            }
            text = with_host(&text, host);
        }
        guest.stage.write_text(HOSTS, &text)
    }
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

/// The line with other names, and its own spaces, comment and end.
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
    // An address alone has none.
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
