//! What the guest mounts when it starts: `/etc/fstab` (fstab(5)).
//!
//! Which volume of the image each of them is, is another question, which `diskfs mount --explain` answers.

use diskfs_etc::fstab::Fstab;
use serde::Serialize;

use super::files::Files;

const PATH: &str = "/etc/fstab";

/// A line of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Mount {
    /// The device, as it is named there: `UUID=...`, `/dev/vda1`.
    pub device: String,
    /// The directory; `none` for an area to swap in.
    pub path: String,
    /// The filesystem: `ext4`, `swap`, `auto`.
    pub filesystem: String,
    /// The options.
    pub options: Vec<String>,
    /// The line, from 1.
    pub line: usize,
}

/// All of them, in their order.
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
        files.came_from("mounts", PATH, Some(first.line));
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
