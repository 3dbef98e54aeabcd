//! Systems in a subvolume of btrfs.
//!
//! What is read is the top-level subvolume, in which all others are directories, so that `subvol=` of
//! fstab(5) is a path. Which of them a kernel would mount without being told is not: installers name
//! theirs in one of a few ways, and the first that holds a system is taken.

use super::sub_root::SubRoot;
use crate::Filesystem;

/// Ubuntu, openSUSE (its first snapshot is what is written, unless somebody has rolled back), Fedora,
/// Debian.
const ROOTS: &[&str] = &["/@", "/@/.snapshots/1/snapshot", "/root", "/@rootfs"];

/// The subvolume with the system, if the top level has none.
pub(super) fn find(filesystem: &Filesystem) -> Option<SubRoot> {
    let root = ROOTS.iter().find(|root| holds_system(filesystem, root))?;
    Some(SubRoot {
        root: root.as_bytes().to_vec(),
        entries: Vec::new(),
        whole_at: None,
    })
}

fn holds_system(filesystem: &Filesystem, root: &str) -> bool {
    // Links in a root are meant from there, so they are not followed.
    let is_there = |path: &str| {
        filesystem
            .symlink_metadata(format!("{root}/{path}"))
            .is_ok()
    };
    is_there("etc/os-release") || is_there("usr/lib/os-release")
}
