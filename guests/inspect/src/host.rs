//! What the guest calls itself, and where it is.

use super::files::Files;
use diskfs_etc::shell::{assigned, settings};

/// A longer name is none (hostname(7)).
const HOSTNAME_MAX_BYTES: usize = 253;

/// Finds a value in a file's text, and its line.
type Find = fn(&str) -> Option<(usize, String)>;

/// Where distributions have the name: systemd and Debian, SUSE before systemd, Red Hat before it, Gentoo, FreeBSD,
/// and `OpenWrt`.
const NAMES: [(&str, Find); 6] = [
    ("/etc/hostname", first_line),
    ("/etc/HOSTNAME", first_line),
    ("/etc/sysconfig/network", |text| assigned(text, "HOSTNAME")),
    ("/etc/conf.d/hostname", |text| assigned(text, "hostname")),
    ("/etc/rc.conf", |text| assigned(text, "hostname")),
    ("/etc/config/system", |text| uci_option(text, "hostname")),
];

/// The host's name.
pub(super) fn name(files: &Files<'_>) -> Option<String> {
    NAMES.iter().find_map(|(path, find)| {
        let (line, name) = find(&files.text(path)?)?;
        if name.len() > HOSTNAME_MAX_BYTES || name.contains(char::is_control) {
            files.complain(path, "what it has for a host's name is none");
            return None;
        }
        files.came_from("hostname", path, Some(line));
        Some(name)
    })
}

fn first_line(text: &str) -> Option<(usize, String)> {
    let (number, line) = settings(text).next()?;
    Some((number, line.to_owned()))
}

/// `option NAME 'VALUE'`, as `OpenWrt`'s uci(1) writes it.
fn uci_option(text: &str, name: &str) -> Option<(usize, String)> {
    settings(text).find_map(|(number, line)| {
        let rest = line.strip_prefix("option")?.trim_start();
        let value = rest.strip_prefix(name)?;
        let value = value.strip_prefix([' ', '\t'])?.trim();
        Some((number, value.trim_matches(['\'', '"']).to_owned()))
    })
}

/// The machine's ID (machine-id(5)); `None` also for one that the first boot is to make.
pub(super) fn machine_id(files: &Files<'_>) -> Option<String> {
    let places = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    places.into_iter().find_map(|path| {
        let text = files.text(path)?;
        let id = text.trim();
        if id.is_empty() || id == "uninitialized" {
            return None;
        }
        if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            files.complain(path, "what it has is no machine ID");
            return None;
        }
        files.came_from("machine_id", path, Some(1));
        Some(id.to_ascii_lowercase())
    })
}

/// The time zone, by its name in the database.
pub(super) fn timezone(files: &Files<'_>) -> Option<String> {
    const LINK: &str = "/etc/localtime";
    if let Some(target) = files.link(LINK)
        && let Some((_, zone)) = target.split_once("zoneinfo/")
    {
        files.came_from("timezone", LINK, None);
        return Some(zone.to_owned());
    }
    let path = "/etc/timezone";
    if let Some((line, zone)) = files.text(path).as_deref().and_then(first_line) {
        files.came_from("timezone", path, Some(line));
        return Some(zone);
    }
    let places = [
        ("/etc/sysconfig/clock", "ZONE"),
        ("/etc/sysconfig/clock", "TIMEZONE"),
    ];
    from_variables(files, "timezone", &places)
}

/// The locale.
pub(super) fn locale(files: &Files<'_>) -> Option<String> {
    let places = [
        ("/etc/locale.conf", "LANG"),
        ("/etc/default/locale", "LANG"),
        ("/etc/sysconfig/i18n", "LANG"),
        ("/etc/sysconfig/language", "RC_LANG"),
        ("/etc/env.d/02locale", "LANG"),
    ];
    from_variables(files, "locale", &places)
}

fn from_variables(
    files: &Files<'_>,
    question: &'static str,
    places: &[(&str, &str)],
) -> Option<String> {
    places.iter().find_map(|(path, name)| {
        let (line, value) = assigned(&files.text(path)?, name)?;
        files.came_from(question, path, Some(line));
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_openwrt() {
        let text = "config system\n\toption hostnames 'x'\n\toption hostname 'OpenWrt'\n";
        assert_eq!(
            uci_option(text, "hostname"),
            Some((3, "OpenWrt".to_owned()))
        );
    }
}
