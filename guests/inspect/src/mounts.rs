//! The filesystems that the guest mounts at boot: `/etc/fstab` (fstab(5)).
//!
//! `diskfs mount --explain` shows which volume of the image each of them is.

use diskfs_etc::fstab::Fstab;
use serde::Serialize;

use super::files::Files;

const PATH: &str = "/etc/fstab";

/// A line of `/etc/fstab`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Mount {
    /// The device as fstab names it: `UUID=...`, `/dev/vda1`.
    pub device: String,
    /// The mount point; `none` for swap.
    pub path: String,
    /// The filesystem type: `ext4`, `swap`, `auto`.
    pub filesystem: String,
    /// The mount options.
    pub options: Vec<String>,
    /// The line number, from 1.
    pub line: usize,
}

/// Returns all lines, in order.
pub(super) fn of(files: &Files<'_>) -> Vec<Mount> {
    let Some(text) = files.text(PATH) else {
        return Vec::new();
    };
    let fstab = Fstab::new(text);
    let mount = |(line, entry): (usize, diskfs_etc::fstab::Entry)| Mount {
        options: entry.each_option().map(str::to_owned).collect(),
        device: entry.device,
        path: entry.path,
        filesystem: entry.kind,
        line,
    };
    let mounts: Vec<Mount> = fstab.entries().map(mount).collect();
    if let Some(first) = mounts.first() {
        files.add_source("mounts", PATH, Some(first.line));
    }
    mounts
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn lines_of_fstab() {
        let tree = guest(&[(
            PATH,
            "# x\nUUID=0a / ext4 errors=remount-ro 0 1\n\nUUID=0b none swap sw 0 0\n/dev/vdb /my\\040data xfs\n",
        )]);
        let found = of(&Files::new(&tree));
        let shown: Vec<_> = found
            .iter()
            .map(|it| (&*it.device, &*it.path, &*it.filesystem, it.line))
            .collect();
        let expected = [
            ("UUID=0a", "/", "ext4", 2),
            ("UUID=0b", "none", "swap", 4),
            ("/dev/vdb", "/my data", "xfs", 5),
        ];
        assert_eq!(shown, expected);
        assert_eq!(found[0].options, ["errors=remount-ro"]);
    }
}
