//! The needs of the sources' files: the space on each filesystem.

use diskfs_archive::Tree;
use diskfs_archive::tree::Named;
use diskfs_disk::{Result, TreeUsage};
use diskfs_vfs::{Error, ErrorKind, FileType};

use crate::plan::FilesystemKind;

/// A filesystem with a mount point, and the space that its files need.
#[derive(Debug)]
pub(crate) struct MountUsage {
    /// The mount point without slashes at its ends; empty for the root.
    pub(crate) path: String,
    pub(crate) kind: FilesystemKind,
    pub(crate) usage: TreeUsage,
    /// The sizes of all files, and an estimate of the directories, in clusters of FAT.
    pub(crate) clusters_bytes: u64,
    /// The sum of the sizes of the contents.
    pub(crate) content_bytes: u64,
}

/// The cluster size that the needs of a FAT filesystem are rounded to. Filesystems of up to 16 GiB
/// have smaller ones.
const FAT_CLUSTER_BYTES: u64 = 8 << 10;

/// The cluster size that the needs of an exFAT filesystem are rounded to. Filesystems of up to 32
/// GiB have no larger ones.
const EXFAT_CLUSTER_BYTES: u64 = 32 << 10;

/// The bytes of a file's entries in a directory of FAT: for a name of 255 characters.
const ENTRY_BYTES: u64 = 21 * 32;

impl MountUsage {
    pub(crate) fn new(path: &str, kind: FilesystemKind) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            usage: TreeUsage::new(),
            clusters_bytes: 0,
            content_bytes: 0,
        }
    }

    /// Adds a file with these contents, which is in none of the sources.
    pub(crate) fn add_file(&mut self, size_bytes: u64) {
        self.usage
            .add_file(size_bytes, size_bytes.next_multiple_of(4096));
        self.add_bytes(size_bytes);
    }

    fn add_bytes(&mut self, size_bytes: u64) {
        let cluster_bytes = match self.kind {
            FilesystemKind::Exfat => EXFAT_CLUSTER_BYTES,
            _ => FAT_CLUSTER_BYTES,
        };
        let rounded = size_bytes.max(1).next_multiple_of(cluster_bytes);
        self.clusters_bytes = self.clusters_bytes.saturating_add(rounded);
        self.content_bytes = self.content_bytes.saturating_add(size_bytes);
    }

    fn add(&mut self, named: &Named<'_>) -> Result<()> {
        let node = &named.node;
        node.add_to(&mut self.usage);
        match node.file_type {
            FileType::Regular => self.add_bytes(node.allocated_bytes.min(node.size_bytes)),
            FileType::Directory => {
                self.add_bytes(ENTRY_BYTES.saturating_mul(node.name_bytes.len() as u64));
            }
            _ if self.kind.is_fat() => {
                let reason = format!(
                    "{} can't store symlinks, devices and FIFOs; change the mount point of the \
                     filesystem, or the files",
                    self.kind.name()
                );
                let error = Error::new(ErrorKind::Unsupported, reason);
                return Err(error.in_path(&named.path).into());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Adds the files of a tree to the filesystems on which they will be.
///
/// # Errors
/// `Unsupported` for hard links across filesystems, and for files that a filesystem can't store.
pub(crate) fn add_tree(tree: &Tree, mounts: &mut [MountUsage]) -> Result<()> {
    let mut last: Option<(usize, usize)> = None;
    for named in tree.names() {
        let index = mount_of(&named.path, mounts);
        let Some(mount) = mounts.get_mut(index) else {
            continue;
        };
        match last {
            Some((number, other)) if number == named.number => {
                if other != index {
                    let reason = "a hard link can't lead to another filesystem";
                    let error = Error::new(ErrorKind::Unsupported, reason);
                    return Err(error.in_path(&named.path).into());
                }
            }
            _ => mount.add(&named)?,
        }
        last = Some((named.number, index));
    }
    Ok(())
}

/// Returns the index of the filesystem on which a path is.
pub(crate) fn mount_of(path: &[u8], mounts: &[MountUsage]) -> usize {
    let depth = |mount: &MountUsage| {
        let below = path.strip_prefix(mount.path.as_bytes())?;
        let is_below = mount.path.is_empty() || below.is_empty() || below.starts_with(b"/");
        is_below.then_some(mount.path.len())
    };
    let indexed = mounts.iter().enumerate();
    let found = indexed.filter_map(|(index, mount)| Some((depth(mount)?, index)));
    found.max().map_or(usize::MAX, |(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_counts() {
        let mounts =
            ["", "boot", "boot/efi"].map(|path| MountUsage::new(path, FilesystemKind::Ext4));
        for (path, index) in [
            ("", 0),
            ("bootx", 0),
            ("boot", 1),
            ("boot/a", 1),
            ("boot/efi", 2),
            ("boot/efi/a/b", 2),
            ("usr/boot", 0),
        ] {
            assert_eq!(mount_of(path.as_bytes(), &mounts), index, "{path}");
        }
    }
}
