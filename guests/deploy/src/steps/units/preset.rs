//! The presets of a distribution, which enable or disable units: systemd.preset(5).

use std::collections::BTreeMap;

use diskfs_vfs::glob::{Case, Pattern};

use super::super::super::guest::Guest;
use diskfs_disk::Result;

/// The preset directories. A file hides files of the same name in later directories.
const DIRS: [&str; 4] = [
    "/etc/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
    "/lib/systemd/system-preset",
];

/// Returns true if the first matching rule enables the unit, or if no rule matches.
pub(super) fn is_on(guest: &Guest, name: &str) -> Result<bool> {
    for text in texts(guest)? {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let is_on = match words.next() {
                Some("enable") => true,
                Some("disable") => false,
                _ => continue,
            };
            let pattern = words.next().map(|word| Pattern::new(word, Case::Sensitive));
            if let Some(Ok(pattern)) = pattern
                && pattern.matches(name)
            {
                return Ok(is_on);
            }
        }
    }
    Ok(true)
}

/// Returns the contents of the preset files, sorted by file name.
fn texts(guest: &Guest) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    for dir in DIRS {
        if !guest.stage.is_dir(dir)? {
            continue;
        }
        for name in guest.stage.names(dir)? {
            if name
                .rsplit_once('.')
                .is_some_and(|(_, kind)| kind == "preset")
            {
                files.entry(name.clone()).or_insert(format!("{dir}/{name}"));
            }
        }
    }
    let mut texts = Vec::new();
    for path in files.values() {
        texts.extend(guest.stage.text(path)?);
    }
    Ok(texts)
}
