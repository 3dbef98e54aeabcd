//! What is known of packages, as lines.

use diskfs_block::{BlockRead, Memory};
use diskfs_rpm::{Database, Form, Package};

/// What rpm is asked for: all that [`Package`] has.
pub(crate) const QUERY: &str = "%{NAME}\\t%{EPOCH}\\t%{VERSION}\\t%{RELEASE}\\t%{ARCH}\\t%{VENDOR}\\t\
     %{LICENSE}\\t%{SOURCERPM}\\t%{INSTALLTIME}\\t%{LONGSIZE}\\t%{SUMMARY}\\t%{URL}\\t%{MODULARITYLABEL}\\n";

/// The line that [`QUERY`] gives.
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

/// The lines of a database without any error, sorted.
pub(crate) fn lines(main: &dyn BlockRead, wal: Option<&dyn BlockRead>, form: Form) -> Vec<String> {
    let database = Database::open(main, wal).unwrap();
    assert_eq!(database.form(), form);
    let packages: Result<Vec<Package>, _> = database.packages().collect();
    sorted(packages.unwrap().iter().map(line))
}

/// What rpm printed, sorted.
pub(crate) fn sorted_lines(text: &str) -> Vec<String> {
    sorted(text.lines().map(str::to_owned))
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// Of the files beside this one.
pub(crate) fn fixture(compressed: &[u8]) -> Memory {
    Memory::new(bytes(compressed))
}

/// As [`fixture`], to be changed.
pub(crate) fn bytes(compressed: &[u8]) -> Vec<u8> {
    zstd::decode_all(compressed).unwrap()
}

/// The first lines that differ, or nothing: whole lists are too long to be read.
#[track_caller]
pub(crate) fn assert_same(found: &[String], expected: &[String]) {
    assert!(expected.len() > 1, "rpm lists nothing");
    let differing = found.iter().zip(expected).find(|(a, b)| a != b);
    assert_eq!(differing, None);
    assert_eq!(found.len(), expected.len());
}
