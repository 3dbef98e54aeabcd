//! Systems in a subvolume of btrfs.
//!
//! The driver reads the top-level subvolume, in which all other subvolumes are directories, so
//! `subvol=` of fstab(5) is a path. The system is in the default subvolume, which a kernel mounts
//! without options, or else in a subvolume with a name that installers use.

use super::sub_root::SubRoot;
use crate::Filesystem;

/// The root subvolumes of Ubuntu, openSUSE (its first snapshot), Fedora and Debian.
const ROOTS: &[&str] = &["/@", "/@/.snapshots/1/snapshot", "/root", "/@rootfs"];

/// Returns the subvolume with the system, if the top level has none.
pub(super) fn find(filesystem: &Filesystem) -> Option<SubRoot> {
    // openSUSE makes the snapshot of a rollback the default subvolume.
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
    // Absolute symlinks in a subvolume refer to that root, not to the top level, so they are not
    // followed.
    let is_there = |path: &[u8]| {
        let path = [root, path].concat();
        filesystem.symlink_metadata(path).is_ok()
    };
    is_there(b"/etc/os-release") || is_there(b"/usr/lib/os-release")
}
