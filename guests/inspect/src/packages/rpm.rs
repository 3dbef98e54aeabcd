//! rpm's databases, of each format (`diskfs_rpm`).

use diskfs_block::BlockRead;
use diskfs_rpm::Database;

use super::{MAX_PACKAGES, Package};
use crate::files::Files;
use diskfs_disk::FileDevice;

/// The present and former values of `%_dbpath`; the last one is that of rpm-ostree.
const PLACES: [&str; 3] = ["/usr/lib/sysimage/rpm", "/var/lib/rpm", "/usr/share/rpm"];

/// The database files, the newest format first: rpm leaves an old file behind when it converts.
const DATABASES: [&str; 3] = ["rpmdb.sqlite", "Packages.db", "Packages"];

const RPM: &str = "/usr/bin/rpm";

/// The text that rpm shows for a missing architecture: keys have none.
const NONE: &str = "(none)";

/// The limit on reported errors per database.
const MAX_REPORTED: usize = 5;

pub(super) fn installed(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    let mut paths = PLACES.iter().flat_map(|place| {
        let names = DATABASES.iter();
        names.map(move |name| format!("{place}/{name}"))
    });
    let Some(path) = paths.find(|path| files.exists(path)) else {
        return without_database(files);
    };
    let Some(main) = files.open(&path) else {
        return Some(Err(()));
    };
    let log = files.open(&format!("{path}-wal"));
    let packages = read(files, &path, &main, log.as_ref());
    if packages.is_ok() {
        files.add_source("packages", &path, None);
    }
    Some(packages)
}

/// Reports a missing database if rpm itself is installed: then the guest has packages.
fn without_database(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    let place = PLACES.into_iter().find(|place| files.exists(place))?;
    if !files.exists(RPM) {
        return None;
    }
    files.add_problem(place, "missing package database");
    Some(Err(()))
}

fn read(
    files: &Files<'_>,
    path: &str,
    main: &FileDevice,
    log: Option<&FileDevice>,
) -> Result<Vec<Package>, ()> {
    let log = log.map(|log| -> &dyn BlockRead { log });
    let database = Database::open(main, log);
    let database = database.map_err(|error| files.add_problem(path, error.to_string()))?;
    let mut packages = Vec::new();
    let mut errors = Vec::new();
    for package in database.packages().take(MAX_PACKAGES) {
        match package {
            Ok(package) => packages.push(of(package)),
            Err(error) => errors.push(error.to_string()),
        }
    }
    for error in errors.iter().take(MAX_REPORTED) {
        files.add_problem(path, format!("skipped a package: {error}"));
    }
    if let Some(more @ 1..) = errors.len().checked_sub(MAX_REPORTED) {
        files.add_problem(path, format!("skipped {more} more packages"));
    }
    if packages.is_empty() && !errors.is_empty() {
        return Err(());
    }
    Ok(packages)
}

fn of(package: diskfs_rpm::Package) -> Package {
    Package {
        version: package.evr(),
        name: package.name,
        architecture: package.arch.unwrap_or_else(|| NONE.to_owned()),
        source: package.source_rpm,
        summary: package.summary,
        url: package.url,
        description: package.description,
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::*;
    use crate::testing::of;
    use diskfs_disk::Filesystem;

    const SQLITE: &[u8] = include_bytes!("../../../../files/rpm/tests/databases/tiny.sqlite.zst");
    const LOG: &[u8] = include_bytes!("../../../../files/rpm/tests/databases/tiny.sqlite-wal.zst");
    const NDB: &[u8] = include_bytes!("../../../../files/rpm/tests/databases/tiny.ndb.zst");

    fn bytes(compressed: &[u8]) -> Vec<u8> {
        zstd::decode_all(compressed).unwrap()
    }

    fn guest(files: &[(&str, &[u8])]) -> Filesystem {
        let mut tree = MemoryFs::new();
        for (path, contents) in files {
            tree.dir(path.rsplit_once('/').unwrap().0);
            tree.file(path, contents);
        }
        of(tree)
    }

    #[test]
    fn versions_and_architectures_are_those_of_rpm() {
        let tree = guest(&[("/var/lib/rpm/rpmdb.sqlite", &bytes(SQLITE))]);
        let files = Files::new(&tree);
        let found = installed(&files).unwrap().unwrap();
        let mut found: Vec<_> = found
            .iter()
            .map(|it| (&*it.name, &*it.version, &*it.architecture))
            .collect();
        found.sort_unstable();
        let expected = [
            ("first", "1-1", "noarch"),
            ("gpg-pubkey", "2097521c-695735a5", "(none)"),
            ("pkg0", "0.0-1.fc41", "noarch"),
            ("pkg1", "1.7-2.fc41", "noarch"),
        ];
        assert_eq!(found, expected);
        let (sources, problems) = files.finish();
        assert_eq!(sources["packages"][0].file, "/var/lib/rpm/rpmdb.sqlite");
        assert_eq!(problems, []);
    }

    #[test]
    fn what_is_in_the_log_counts() {
        let log = bytes(LOG);
        // The log is cut after the first of its two transactions, which removes a package.
        let names = |log: &[u8]| {
            let place = "/usr/lib/sysimage/rpm";
            let tree = guest(&[
                (&*format!("{place}/rpmdb.sqlite"), &bytes(SQLITE)),
                (&*format!("{place}/rpmdb.sqlite-wal"), log),
            ]);
            let found = installed(&Files::new(&tree)).unwrap().unwrap();
            let mut names: Vec<_> = found.into_iter().map(|it| it.name).collect();
            names.sort();
            names
        };
        assert_eq!(names(&log), ["first", "gpg-pubkey", "pkg0", "pkg1"]);
        let shorter = (0..log.len())
            .step_by(536)
            .map(|len| names(&log[..len]).len());
        assert_eq!(shorter.min(), Some(3));
    }

    #[test]
    fn a_broken_package_is_reported() {
        let mut database = bytes(NDB);
        database[32] = b'?';
        let tree = guest(&[("/usr/share/rpm/Packages.db", &database)]);
        let files = Files::new(&tree);
        assert_eq!(installed(&files).unwrap().unwrap().len(), 2);
        let (_, problems) = files.finish();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].reason.contains("slot 2"), "{problems:?}");
    }

    #[test]
    fn without_a_database() {
        let found = |files: &[(&str, &[u8])]| installed(&Files::new(&guest(files)));
        assert_eq!(found(&[("/var/lib/rpm/x", b"")]), None);
        let rpm: (&str, &[u8]) = ("/usr/bin/rpm", b"");
        assert_eq!(found(&[("/var/lib/rpm/x", b""), rpm]), Some(Err(())));
        assert_eq!(found(&[("/var/lib/rpm/Packages", b"?")]), Some(Err(())));
    }
}
