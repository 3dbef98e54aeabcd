//! The step `hostname`.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::{has_variable, with_line, with_variable};
use super::hosts;
use diskfs_disk::Result;
use diskfs_etc::shell::{assigned, settings};

/// The file that systemd and most other systems read: hostname(5).
const HOSTNAME: &str = "/etc/hostname";

/// The file on Red Hat before systemd.
const SYSCONFIG: &str = "/etc/sysconfig/network";

/// The file on SUSE.
const SUSE: &str = "/etc/HOSTNAME";

/// The file on Gentoo without systemd.
const OPENRC: &str = "/etc/conf.d/hostname";

/// The file on `OpenWrt`.
const UCI: &str = "/etc/config/system";

/// The file on FreeBSD.
const RC_CONF: &str = "/etc/rc.conf";

/// `HOST_NAME_MAX` of Linux, and the longest name of DNS.
const LABEL_BYTES: usize = 63;
const NAME_BYTES: usize = 253;

/// The host name, with its domain if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Hostname(pub String);

impl Hostname {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let name = self.0.trim_end_matches('.');
        if !is_name(name) {
            return Err(guest.invalid(format!(
                "invalid host name `{name}`: expected letters, digits, hyphens and dots"
            )));
        }
        if let Some(old) = old_name(guest)? {
            hosts::rename(guest, &old, name)?;
        }
        set(guest, name)
    }
}

/// Writes the host name into the files that the guest reads.
fn set(guest: &mut Guest, name: &str) -> Result<()> {
    let short = name.split('.').next().unwrap_or(name);
    let mut is_known = false;
    if let Some(text) = text_of(guest, SYSCONFIG)? {
        // With systemd, the file usually sets only NETWORKING, and the host name is elsewhere.
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
    // This file is the default, and with systemd it takes precedence over the others.
    if !is_known || guest.stage.exists(HOSTNAME)? || guest.has_systemd()? {
        guest.stage.write_text(HOSTNAME, &format!("{name}\n"))?;
    }
    Ok(())
}

/// Returns the text of a file; `None` also for a directory of that name, as
/// `/etc/sysconfig/network` is on SUSE.
fn text_of(guest: &Guest, path: &str) -> Result<Option<String>> {
    if guest.stage.is_dir(path)? {
        return Ok(None);
    }
    guest.stage.text(path)
}

/// Returns the guest's current host name.
fn old_name(guest: &Guest) -> Result<Option<String>> {
    type Find = fn(&str) -> Option<String>;
    let line: Find = |text| settings(text).next().map(|(_, line)| line.to_owned());
    let upper: Find = |text| assigned(text, "HOSTNAME").map(|(_, name)| name);
    let lower: Find = |text| assigned(text, "hostname").map(|(_, name)| name);
    for (path, find) in [
        (HOSTNAME, line),
        (SUSE, line),
        (SYSCONFIG, upper),
        (OPENRC, lower),
        (RC_CONF, lower),
    ] {
        let text = text_of(guest, path)?;
        if let Some(name) = text.as_deref().and_then(find) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns true for labels of letters, digits and hyphens (RFC 1123, section 2.1).
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
        super::super::EntryKind::Symlink(to) => to.rsplit('/').next() == Some(target),
        _ => false,
    }))
}

/// Returns the text of uci with the option set in the first section `system`.
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
    fn the_network_is_a_directory_on_suse() {
        let guest = after(
            "-- /etc/hostname --\nold\n-- /etc/HOSTNAME --\nold\n-- /etc/sysconfig/network/config --\nx\n-- /usr/lib/systemd/systemd --\n",
            "- hostname: web1.example.org",
        );
        assert_eq!(text(&guest, HOSTNAME), "web1.example.org\n");
        assert_eq!(text(&guest, SUSE), "web1.example.org\n");
        assert_eq!(text(&guest, "/etc/sysconfig/network/config"), "x\n");
    }

    #[test]
    fn the_old_name_goes_from_the_hosts() {
        let hosts = |old: &str, new: &str, lines: &str| {
            let tree = format!(
                "-- /etc/hostname --\n{old}\n-- /usr/lib/systemd/systemd --\n\
                 -- /etc/network/interfaces --\niface eth0 inet static\n  address 192.0.2.7/24\n\
                 -- /etc/hosts --\n{lines}"
            );
            let guest = after(&tree, &format!("- hostname: {new}"));
            text(&guest, "/etc/hosts")
        };
        for (old, new, before, expected) in [
            ("old", "web1", "127.0.1.1\told\n", "127.0.1.1\tweb1\n"),
            (
                "old",
                "web1.example.org",
                "127.0.0.1 localhost old # mine\n127.0.1.1\told.lan  old\n",
                "127.0.0.1 localhost web1.example.org web1 # mine\n127.0.1.1\tweb1.example.org web1\n",
            ),
            // The old domain stays, because the new name has none.
            (
                "old.lan",
                "web1",
                "127.0.1.1\told.lan old mail\n::1 localhost old\n",
                "127.0.1.1\tweb1.lan web1 mail\n::1 localhost web1\n",
            ),
            (
                "old.lan",
                "web1",
                "127.0.1.1 old.lan\n",
                "127.0.1.1 web1.lan web1\n",
            ),
            // The guest's own address, and one of another machine, which may have the same name.
            (
                "old",
                "web1",
                "192.0.2.7 old\n192.0.2.9 old\n127.0.1.1 older\n",
                "192.0.2.7 web1\n192.0.2.9 old\n127.0.1.1 older\n",
            ),
            // Names that belong to every host, not to this guest.
            (
                "localhost.localdomain",
                "web1",
                "127.0.0.1 localhost localhost.localdomain\n",
                "127.0.0.1 localhost localhost.localdomain\n",
            ),
        ] {
            assert_eq!(hosts(old, new, before), expected, "{old} {new}");
        }
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
