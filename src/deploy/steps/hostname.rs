//! The guest's name.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::{has_variable, with_line, with_variable};
use crate::Result;

/// What systemd and most others read: hostname(5).
const HOSTNAME: &str = "/etc/hostname";

/// Red Hat before systemd, and the key in it.
const SYSCONFIG: &str = "/etc/sysconfig/network";

/// SUSE.
const SUSE: &str = "/etc/HOSTNAME";

/// Gentoo without systemd.
const OPENRC: &str = "/etc/conf.d/hostname";

/// `OpenWrt`.
const UCI: &str = "/etc/config/system";

/// FreeBSD.
const RC_CONF: &str = "/etc/rc.conf";

/// `HOST_NAME_MAX` of Linux, and the longest name of DNS.
const LABEL_BYTES: usize = 63;
const NAME_BYTES: usize = 253;

/// The host's name, with its domain where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Hostname(pub String);

impl Hostname {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let name = self.0.trim_end_matches('.');
        if !is_name(name) {
            return Err(guest.invalid(format!("`{name}` is no name of a host")));
        }
        let short = name.split('.').next().unwrap_or(name);
        let mut is_known = false;
        if let Some(text) = guest.stage.text(SYSCONFIG)? {
            // Of systemd it is only NETWORKING's.
            if !guest.has_systemd()? || has_variable(&text, "HOSTNAME") {
                let text = with_variable(&text, "HOSTNAME", name);
                guest.stage.write_text(SYSCONFIG, &text)?;
                is_known = true;
            }
        }
        if guest.stage.exists(SUSE)? && !is_link_to(guest, SUSE, "hostname")? {
            guest.stage.write_text(SUSE, &format!("{name}\n"))?;
            is_known = true;
        }
        for (file, key, value) in [
            (OPENRC, "hostname", format!("\"{name}\"")),
            (RC_CONF, "hostname", format!("\"{name}\"")),
        ] {
            if let Some(text) = guest.stage.text(file)? {
                if file == RC_CONF && !has_variable(&text, key) {
                    continue;
                }
                let text = with_variable(&text, key, &value);
                guest.stage.write_text(file, &text)?;
                is_known = true;
            }
        }
        if let Some(text) = guest.stage.text(UCI)? {
            guest.stage.write_text(UCI, &with_option(&text, short))?;
            return Ok(());
        }
        // Whoever has none of the others has this, and with systemd it is the one that counts.
        if !is_known || guest.stage.exists(HOSTNAME)? || guest.has_systemd()? {
            guest.stage.write_text(HOSTNAME, &format!("{name}\n"))?;
        }
        Ok(())
    }
}

/// Labels of letters, digits and hyphens (RFC 1123, section 2.1).
pub(super) fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty()
            && label.len() <= LABEL_BYTES
            && label.bytes().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= NAME_BYTES && name.split('.').all(is_label)
}

fn is_link_to(guest: &Guest, path: &str, target: &str) -> Result<bool> {
    let entry = guest.stage.link_entry(path)?;
    Ok(entry.is_some_and(|entry| match entry.kind {
        super::super::Kind::Symlink(to) => to.rsplit('/').next() == Some(target),
        _ => false,
    }))
}

/// The text of uci with the option of the first section `system`.
fn with_option(text: &str, name: &str) -> String {
    let mut out = String::new();
    let mut is_in = false;
    let mut is_done = false;
    for line in text.split_inclusive('\n') {
        let mut words = line.split_whitespace();
        let words = (words.next(), words.next());
        if words.0 == Some("config") {
            is_in = words.1.map(|kind| kind.trim_matches(['\'', '"'])) == Some("system");
        }
        if is_in && !is_done && words == (Some("option"), Some("hostname")) {
            out.extend(["\toption hostname '", name, "'\n"]);
            is_done = true;
        } else {
            out.push_str(line);
        }
    }
    if is_done {
        return out;
    }
    let section = format!("\nconfig system\n\toption hostname '{name}'");
    with_line(text.to_owned(), &section)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, guest, text};
    use super::*;

    #[test]
    fn a_debian() {
        let guest = after(
            "-- /etc/hostname --\nold\n-- /usr/lib/systemd/systemd --\n",
            "- hostname: web1.example.org",
        );
        assert_eq!(text(&guest, HOSTNAME), "web1.example.org\n");
        assert_eq!(text(&guest, SYSCONFIG), "");
    }

    #[test]
    fn a_red_hat_of_old_keeps_its_other_lines() {
        let guest = after(
            "-- /etc/sysconfig/network --\n# it\nNETWORKING=yes\nHOSTNAME=a\nGATEWAY=10.0.0.1\n",
            "- hostname: web1.example.org",
        );
        assert_eq!(
            text(&guest, SYSCONFIG),
            "# it\nNETWORKING=yes\nHOSTNAME=web1.example.org\nGATEWAY=10.0.0.1\n"
        );
    }

    #[test]
    fn others_have_files_of_their_own() {
        let step = "- hostname: web1.example.org";
        let gentoo = after("-- /etc/conf.d/hostname --\nhostname=\"localhost\"\n", step);
        assert_eq!(text(&gentoo, OPENRC), "hostname=\"web1.example.org\"\n");
        let suse = after(
            "-- /etc/HOSTNAME --\na\n-- /etc/hostname --\na\n-- /usr/lib/systemd/systemd --\n",
            step,
        );
        assert_eq!(text(&suse, SUSE), "web1.example.org\n");
        assert_eq!(text(&suse, HOSTNAME), "web1.example.org\n");
        let openwrt = after(
            "-- /etc/config/system --\nconfig system\n\toption hostname 'OpenWrt'\n\toption ttylogin '0'\n\nconfig timeserver 'ntp'\n",
            step,
        );
        assert_eq!(
            text(&openwrt, UCI),
            "config system\n\toption hostname 'web1'\n\toption ttylogin '0'\n\nconfig timeserver 'ntp'\n"
        );
        assert_eq!(text(&openwrt, HOSTNAME), "");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in ["a b", "-a", "a_b", "a..b", "a/../../etc"] {
            let mut guest = guest("-- /etc/hostname --\nold\n");
            let step = format!("- hostname: \"{name}\"");
            assert!(apply(&mut guest, &step).is_err(), "{name}");
            assert!(guest.stage.changes().unwrap().is_empty());
        }
    }
}
