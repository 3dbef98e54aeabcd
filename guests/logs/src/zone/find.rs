//! Where a guest says which time zone it is in.

use std::fs;
use std::io::Read as _;

use super::{FILE_BYTES, Zone};
use diskfs_disk::{ErrorKind, Filesystem};
use diskfs_inspect::Problem;

/// What the C library reads.
const LOCALTIME: &str = "/etc/localtime";

/// The database, in a guest and on the host.
const DATABASE: &str = "/usr/share/zoneinfo";

/// The zone that a guest's clocks are in, and what keeps it from being known: then it is UTC, as for a guest that says
/// nothing.
///
/// `/etc/localtime` says it by its contents, as for the C library. Where there is none, the zone that it, /etc/timezone or
/// /etc/sysconfig/clock names is taken from the guest's database, or from that of the host.
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
        let problem = problem.map(|reason| told(LOCALTIME, &reason));
        return (Zone::default(), problem);
    };
    if let Some(zone) = by_name(filesystem, &name) {
        return (zone, None);
    }
    let reason = problem.unwrap_or_else(|| format!("unknown time zone `{name}`"));
    (Zone::default(), Some(told(LOCALTIME, &reason)))
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn told(path: &str, reason: &str) -> Problem {
    Problem::new(
        path,
        format!("{reason}; local times of text logs are taken for UTC"),
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

/// Whether it is UTC whatever the database says, or whether there is one.
fn is_utc(name: &str) -> bool {
    let bare = name.strip_prefix("Etc/").unwrap_or(name);
    ["UTC", "UCT", "GMT", "Universal", "Zulu"].contains(&bare)
}

/// Whether a name of the guest stays within the database of the host.
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
