//! The step `resolver`: DNS settings in resolv.conf(5).

use std::fmt::Write;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::stage::EntryKind;
use super::hostname::is_name;
use diskfs_disk::Result;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// A static `/etc/resolv.conf`. If the file is a symlink to a file that a service generates (below
/// `/run`), it is only replaced with `replace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Resolver {
    /// The addresses of the name servers.
    pub nameservers: Vec<IpAddr>,
    /// The search domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// The resolver options, as in resolv.conf(5).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Replaces a symlink by a static file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

impl Resolver {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let text = self.text(guest)?;
        let entry = guest.stage.link_entry(RESOLV_CONF)?;
        if let Some(EntryKind::Symlink(target)) = entry.map(|entry| entry.kind) {
            if !self.replace {
                let note = format!(
                    "{RESOLV_CONF} was not changed: it is a symlink to {target}; set `replace` \
                     to replace it"
                );
                guest.note(note);
                return Ok(());
            }
            guest.stage.remove(RESOLV_CONF)?;
        }
        guest.stage.write_with(RESOLV_CONF, &text, 0o644)
    }

    fn text(&self, guest: &Guest) -> Result<String> {
        let is_word = |word: &String| word.bytes().all(|byte| byte.is_ascii_graphic());
        let is_domain = |name: &String| is_name(name.trim_end_matches('.'));
        if !self.search.iter().all(is_domain) || !self.options.iter().all(is_word) {
            return Err(guest.invalid(
                "invalid search domain or option: expected domain names, and options of one \
                 word each",
            ));
        }
        let mut text = String::new();
        if !self.search.is_empty() {
            let _ = writeln!(text, "search {}", self.search.join(" "));
        }
        for server in &self.nameservers {
            let _ = writeln!(text, "nameserver {server}");
        }
        if !self.options.is_empty() {
            let _ = writeln!(text, "options {}", self.options.join(" "));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, text};

    const STEP: &str =
        "- resolver: {nameservers: [192.0.2.53, \"2001:db8::53\"], search: [example.org]}";

    #[test]
    fn a_file_is_written_and_a_symlink_stays() {
        let expected = "search example.org\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n";
        let guest = after("-- /etc/resolv.conf --\nnameserver 1.1.1.1\n", STEP);
        assert_eq!(text(&guest, "/etc/resolv.conf"), expected);
        let tree = "-- /etc/resolv.conf -> ../run/systemd/resolve/stub-resolv.conf --\n";
        assert!(after(tree, STEP).stage.changes().unwrap().is_empty());
        let replaced = after(tree, &STEP.replace('}', ", replace: true}"));
        assert_eq!(text(&replaced, "/etc/resolv.conf"), expected);
    }
}
