//! The names and settings of the guest as a host: host name, machine ID, time zone, locale.

use super::files::Files;
use diskfs_etc::shell::{assigned, settings};

/// The length limit of a host name (hostname(7)).
const HOSTNAME_MAX_BYTES: usize = 253;

/// A function that finds a value in a file's text, and its line.
type Find = fn(&str) -> Option<(usize, String)>;

/// The files with the host name: of systemd and Debian, SUSE before systemd, Red Hat before
/// systemd, Gentoo, FreeBSD, and `OpenWrt`.
const NAMES: [(&str, Find); 6] = [
    ("/etc/hostname", first_line),
    ("/etc/HOSTNAME", first_line),
    ("/etc/sysconfig/network", |text| assigned(text, "HOSTNAME")),
    ("/etc/conf.d/hostname", |text| assigned(text, "hostname")),
    ("/etc/rc.conf", |text| assigned(text, "hostname")),
    ("/etc/config/system", |text| uci_option(text, "hostname")),
];

/// Returns the host name.
pub(super) fn name(files: &Files<'_>) -> Option<String> {
    NAMES.iter().find_map(|(path, find)| {
        let (line, name) = find(&files.text(path)?)?;
        if name.len() > HOSTNAME_MAX_BYTES || name.contains(char::is_control) {
            files.add_problem(path, "invalid host name");
            return None;
        }
        files.add_source("hostname", path, Some(line));
        Some(name)
    })
}

fn first_line(text: &str) -> Option<(usize, String)> {
    let (number, line) = settings(text).next()?;
    Some((number, line.to_owned()))
}

/// Finds `option NAME 'VALUE'`, the format of `OpenWrt`'s uci(1).
fn uci_option(text: &str, name: &str) -> Option<(usize, String)> {
    settings(text).find_map(|(number, line)| {
        let rest = line.strip_prefix("option")?.trim_start();
        let value = rest.strip_prefix(name)?;
        let value = value.strip_prefix([' ', '\t'])?.trim();
        Some((number, value.trim_matches(['\'', '"']).to_owned()))
    })
}

/// Returns the machine ID (machine-id(5)); `None` if it is missing, or to be created at the first
/// boot.
pub(super) fn machine_id(files: &Files<'_>) -> Option<String> {
    let places = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    places.into_iter().find_map(|path| {
        let text = files.text(path)?;
        let id = text.trim();
        if id.is_empty() || id == "uninitialized" {
            return None;
        }
        if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            files.add_problem(path, "invalid machine ID: expected 32 hexadecimal digits");
            return None;
        }
        files.add_source("machine_id", path, Some(1));
        Some(id.to_ascii_lowercase())
    })
}

/// Returns the time zone, by its name in the time zone database.
pub(super) fn timezone(files: &Files<'_>) -> Option<String> {
    const LINK: &str = "/etc/localtime";
    if let Some(target) = files.link(LINK)
        && let Some((_, zone)) = target.split_once("zoneinfo/")
    {
        files.add_source("timezone", LINK, None);
        return Some(zone.to_owned());
    }
    let path = "/etc/timezone";
    if let Some((line, zone)) = files.text(path).as_deref().and_then(first_line) {
        files.add_source("timezone", path, Some(line));
        return Some(zone);
    }
    let places = [
        ("/etc/sysconfig/clock", "ZONE"),
        ("/etc/sysconfig/clock", "TIMEZONE"),
    ];
    from_variables(files, "timezone", &places)
}

/// Returns the locale.
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
        files.add_source(question, path, Some(line));
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
