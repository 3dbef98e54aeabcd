//! The fields of packages as lines of text, for comparison with rpm.

use diskfs_block::{BlockRead, Memory};
use diskfs_rpm::{Database, Format, Package};

/// The query format for rpm with all fields of [`Package`].
pub(crate) const QUERY: &str = "%{NAME}\\t%{EPOCH}\\t%{VERSION}\\t%{RELEASE}\\t%{ARCH}\\t%{VENDOR}\\t\
     %{LICENSE}\\t%{SOURCERPM}\\t%{INSTALLTIME}\\t%{LONGSIZE}\\t%{SUMMARY}\\t%{URL}\\t%{MODULARITYLABEL}\\n";

/// Formats a package like the output of [`QUERY`].
fn line(package: &Package) -> String {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let fields = [
        Some(package.name.clone()),
        number(package.epoch.map(u64::from)),
        Some(package.version.clone()),
        Some(package.release.clone()),
        package.arch.clone(),
        package.vendor.clone(),
        package.license.clone(),
        package.source_rpm.clone(),
        number(package.install_time_seconds),
        number(package.size_bytes),
        package.summary.clone(),
        package.url.clone(),
        package.modularity_label.clone(),
    ];
    let fields = fields.map(|field| field.unwrap_or_else(|| "(none)".to_owned()));
    fields.join("\t")
}

/// Returns the sorted lines of a database, which must have no errors.
pub(crate) fn lines(
    main: &dyn BlockRead,
    wal: Option<&dyn BlockRead>,
    form: Format,
) -> Vec<String> {
    let database = Database::open(main, wal).unwrap();
    assert_eq!(database.format(), form);
    let packages: Result<Vec<Package>, _> = database.packages().collect();
    sorted(packages.unwrap().iter().map(line))
}

/// Returns the sorted lines of rpm's output.
pub(crate) fn sorted_lines(text: &str) -> Vec<String> {
    sorted(text.lines().map(str::to_owned))
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// Returns a fixture, decompressed.
pub(crate) fn fixture(compressed: &[u8]) -> Memory {
    Memory::new(bytes(compressed))
}

/// Returns a fixture, decompressed, as bytes to change.
pub(crate) fn bytes(compressed: &[u8]) -> Vec<u8> {
    zstd::decode_all(compressed).unwrap()
}

/// Fails with the first lines that differ, because whole lists are too long to read.
#[track_caller]
pub(crate) fn assert_same(found: &[String], expected: &[String]) {
    assert!(expected.len() > 1, "rpm lists no packages");
    let differing = found.iter().zip(expected).find(|(a, b)| a != b);
    assert_eq!(differing, None);
    assert_eq!(found.len(), expected.len());
}
