//! The search for the guest's configured time zone.

use std::fs;
use std::io::Read as _;

use super::{FILE_BYTES, Zone};
use diskfs_disk::{ErrorKind, Filesystem};
use diskfs_inspect::Problem;

/// The file that the C library reads.
const LOCALTIME: &str = "/etc/localtime";

/// The directory of the time zone database, in a guest and on the host.
const DATABASE: &str = "/usr/share/zoneinfo";

/// Returns the zone of a guest's clocks, and the reason if it is unknown. An unknown zone becomes
/// UTC, as for a guest without a configured zone.
///
/// The contents of `/etc/localtime` determine the zone, as in the C library. Without that file, the
/// zone that its symlink, /etc/timezone or /etc/sysconfig/clock names is taken from the guest's
/// time zone database, or from that of the host.
pub(crate) fn of_guest(filesystem: &Filesystem) -> (Zone, Option<Problem>) {
    let problem = match filesystem.read_at_most(LOCALTIME, FILE_BYTES) {
        Ok(file) => match Zone::parse(&file) {
            Some(zone) => return (zone, None),
            None => Some("invalid file of the time zone database".to_owned()),
        },
        Err(error) if is_absent(error.kind()) => None,
        Err(error) => Some(error.reason()),
    };
    let Some(name) = diskfs_inspect::timezone(filesystem) else {
        let problem = problem.map(|reason| utc_problem(LOCALTIME, &reason));
        return (Zone::default(), problem);
    };
    if let Some(zone) = by_name(filesystem, &name) {
        return (zone, None);
    }
    let reason = problem.unwrap_or_else(|| format!("unknown time zone `{name}`"));
    (Zone::default(), Some(utc_problem(LOCALTIME, &reason)))
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn utc_problem(path: &str, reason: &str) -> Problem {
    Problem::new(
        path,
        format!("{reason}; local times in text logs are interpreted as UTC"),
    )
}

fn by_name(filesystem: &Filesystem, name: &str) -> Option<Zone> {
    if !is_name(name) {
        return None;
    }
    if is_utc(name) {
        return Some(Zone::default());
    }
    let path = format!("{DATABASE}/{name}");
    let of_guest = filesystem.read_at_most(&path, FILE_BYTES).ok();
    let of_guest = of_guest.and_then(|file| Zone::parse(&file));
    of_guest.or_else(|| {
        let mut file = Vec::new();
        let open = fs::File::open(&path).ok()?;
        open.take(FILE_BYTES).read_to_end(&mut file).ok()?;
        Zone::parse(&file)
    })
}

/// Returns true for the names of UTC, which need no database.
fn is_utc(name: &str) -> bool {
    let bare = name.strip_prefix("Etc/").unwrap_or(name);
    ["UTC", "UCT", "GMT", "Universal", "Zulu"].contains(&bare)
}

/// Returns true if a name from the guest does not lead out of the host's database.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let mut bytes = part.bytes();
        bytes
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    name.len() <= 255 && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_the_database() {
        for name in [
            "UTC",
            "Asia/Shanghai",
            "America/Argentina/Buenos_Aires",
            "Etc/GMT+5",
        ] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "Asia/../../x",
            "Asia//x",
            "Asia/.x",
            "a\0b",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
