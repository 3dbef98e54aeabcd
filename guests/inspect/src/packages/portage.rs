//! Portage's database: one directory per package, below that of its category (Gentoo's "vdb").

use super::{MAX_PACKAGES, Package};
use crate::files::Files;

const DB: &str = "/var/db/pkg";

pub(super) fn installed(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    let mut packages = Vec::new();
    for category in files.names(DB) {
        // Categories can be `acct-user` or `virtual`. FreeBSD's package database has the same path,
        // but is a file.
        let dir = format!("{DB}/{category}");
        if files.is_file(&dir) {
            continue;
        }
        let room = MAX_PACKAGES.saturating_sub(packages.len());
        let names = files.names(&dir);
        packages.extend(
            names
                .iter()
                .take(room)
                .filter_map(|it| parse(&category, it)),
        );
    }
    if packages.is_empty() {
        return None;
    }
    files.add_source("packages", DB, None);
    Some(Ok(packages))
}

/// Splits `bash-5.1_p16-r2`: the version starts after the last dash before a digit, not counting a
/// revision (PMS, "Version specifications").
fn parse(category: &str, directory: &str) -> Option<Package> {
    let is_revision = |text: &str| {
        let digits = text.strip_prefix('r');
        digits.is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
    };
    let end = match directory.rsplit_once('-') {
        Some((before, last)) if is_revision(last) => before,
        _ => directory,
    };
    let (name, version) = end.rsplit_once('-')?;
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| Package {
            name: format!("{category}/{name}"),
            version: directory[name.len() + 1..].to_owned(),
            ..Package::default()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_behind_the_names() {
        for (directory, name, version) in [
            ("bash-5.1_p16-r2", "c/bash", "5.1_p16-r2"),
            ("gtk+-3.24.39", "c/gtk+", "3.24.39"),
            ("foo-r1-2", "c/foo-r1", "2"),
            ("python-exec-conf-2.4.6", "c/python-exec-conf", "2.4.6"),
        ] {
            let found = parse("c", directory).unwrap();
            assert_eq!((&*found.name, &*found.version), (name, version));
        }
        assert_eq!(parse("c", "-MERGING-bash"), None);
        assert_eq!(parse("c", "bash"), None);
    }
}
