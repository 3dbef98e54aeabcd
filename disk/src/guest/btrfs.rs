//! Systems in a subvolume of btrfs.
//!
//! What is read is the top-level subvolume, in which all others are directories, so that `subvol=` of
//! fstab(5) is a path. The system is in the one that a kernel mounts without being told, or else in one of
//! those that installers make, by their names.

use super::sub_root::SubRoot;
use crate::Filesystem;

/// Ubuntu, openSUSE (its first snapshot), Fedora, Debian.
const ROOTS: &[&str] = &["/@", "/@/.snapshots/1/snapshot", "/root", "/@rootfs"];

/// The subvolume with the system, if the top level has none.
pub(super) fn find(filesystem: &Filesystem) -> Option<SubRoot> {
    // openSUSE makes what it has rolled back to the default.
    let default = filesystem.as_fs().subvolume(None).unwrap_or_default();
    let named = ROOTS.iter().map(|root| root.as_bytes());
    let mut roots = std::iter::once(&*default).chain(named);
    let root = roots.find(|root| !root.is_empty() && holds_system(filesystem, root))?;
    Some(SubRoot {
        root: root.to_vec(),
        entries: Vec::new(),
        whole_at: None,
    })
}

fn holds_system(filesystem: &Filesystem, root: &[u8]) -> bool {
    // Links in a root are meant from there, so they are not followed.
    let is_there = |path: &[u8]| {
        let path = [root, path].concat();
        filesystem.symlink_metadata(path).is_ok()
    };
    is_there(b"/etc/os-release") || is_there(b"/usr/lib/os-release")
}
