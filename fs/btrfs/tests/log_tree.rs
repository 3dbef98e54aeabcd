//! Compares the driver's replay of log trees with the kernel's.

mod common;

#[path = "log_tree/random.rs"]
mod random;

use std::path::Path;

use anyhow::Result;
use diskfs_btrfs::{Options, RootSubvolume};
use diskfs_fixtures::{CrashedBtrfs, Tree, btrfs_work as work, require, require_root, seeds};

/// Returns the driver's differences from the kernel after a crash.
fn compare(
    mkfs: &str,
    mount: &str,
    base: impl FnOnce(&Path) -> Result<()>,
    work: impl FnOnce(&Path) -> Result<()>,
) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let crashed = CrashedBtrfs::make(directory.path(), mkfs, mount, base, work)?;
    let before = std::fs::read(&crashed.image)?;
    let options = Options {
        root: RootSubvolume::Id(5),
        ..Options::default()
    };
    let fs = match common::open(std::slice::from_ref(&crashed.image), &options) {
        Ok(fs) => fs,
        Err(error) => return Ok(vec![format!("open: {error}")]),
    };
    let lines = match Tree::of_filesystem(&fs) {
        Ok(found) => crashed.differences(found),
        Err(error) => vec![format!("{error:#}")],
    };
    anyhow::ensure!(
        std::fs::read(&crashed.image)? == before,
        "the image changed"
    );
    if !lines.is_empty() && std::env::var_os("DISKFS_KEEP").is_some() {
        std::mem::forget(directory);
        return Ok([lines, vec![crashed.image.display().to_string()]].concat());
    }
    Ok(lines)
}

fn may_run() -> bool {
    require_root().is_some() && require("mkfs.btrfs").is_some()
}

fn report(failed: &[String]) {
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn each_kind_of_work_is_replayed() {
    if !may_run() {
        return;
    }
    let mut failed = Vec::new();
    for (name, work) in work::ALL {
        let lines = compare("", "", work::base, work);
        let lines = lines.unwrap_or_else(|error| vec![format!("{error:#}")]);
        if !lines.is_empty() {
            failed.push(format!("{name}: {}", lines.join("\n    ")));
        }
    }
    report(&failed);
}

#[test]
fn random_work_is_replayed() {
    if !may_run() {
        return;
    }
    let mut failed = Vec::new();
    let mut compared = 0;
    for seed in seeds(1..5) {
        let (mkfs, mount) = random::options(seed);
        let base = |root: &Path| random::base(root, seed);
        let lines = match compare(mkfs, mount, base, |root| random::work(root, seed)) {
            // The kernel has made a commit instead of a log.
            Err(error) if error.to_string().contains("no log tree") => continue,
            lines => lines.unwrap_or_else(|error| vec![format!("{error:#}")]),
        };
        compared += 1;
        if !lines.is_empty() {
            let lines = lines[..lines.len().min(12)].join("\n    ");
            failed.push(format!("seed {seed} ({mkfs}; {mount}): {lines}"));
        }
    }
    assert!(compared > 0, "no seed made a log");
    report(&failed);
}
