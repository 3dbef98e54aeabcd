//! Helpers for tests that apply steps to trees.

use std::path::Path;
use std::sync::Arc;

use diskfs_vfs::testing::MemoryFs;

use super::super::guest::Guest;
use super::super::plan::Plan;
use diskfs_disk::{Filesystem, Result};

/// Returns a guest with the tree of a txtar.
pub(crate) fn guest(txtar: &str) -> Guest {
    let tree = MemoryFs::of_txtar(txtar);
    let guest = Filesystem::new(Arc::new(tree), Path::new("guest.img"), "p1");
    Guest::for_tests(guest)
}

/// Applies steps in the form `- hostname: x` to a guest.
pub(crate) fn apply(guest: &mut Guest, steps: &str) -> Result<()> {
    let lines: Vec<String> = steps.lines().map(|line| format!("  {line}\n")).collect();
    let plan = Plan::parse(&format!("steps:\n{}", lines.concat()))?;
    for step in &plan.steps {
        step.apply(guest)?;
    }
    Ok(())
}

/// Returns a guest after some steps. Applying them again must not change anything.
pub(crate) fn after(txtar: &str, steps: &str) -> Guest {
    let mut guest = guest(txtar);
    apply(&mut guest, steps).unwrap();
    guest.stage.take_touched();
    apply(&mut guest, steps).unwrap();
    let again = guest.stage.take_touched();
    assert!(again.is_empty(), "changed again: {again:?}");
    guest
}

/// Returns the text of a file of a guest, or "" if it is missing.
pub(crate) fn text(guest: &Guest, path: &str) -> String {
    guest.stage.text(path).unwrap().unwrap_or_default()
}

/// Returns the permissions, owner and group of a path, or "-" if it is missing.
pub(crate) fn attributes(guest: &Guest, path: &str) -> String {
    match guest.stage.link_entry(path).unwrap() {
        Some(entry) => format!("{:04o} {}:{}", entry.permissions, entry.uid, entry.gid),
        None => "-".to_owned(),
    }
}
