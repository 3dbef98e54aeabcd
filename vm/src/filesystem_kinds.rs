//! The kinds of filesystems that the appliance's kernel mounts, and their mount options.

use diskfs_disk::{Error, ErrorKind, Result};

/// The kind of access to a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    ReadWrite,
}

/// The kernel's name and mount options of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mounting {
    /// The kind's name for mount(2).
    kernel_name: &'static str,
    /// The kind's own mount options, as in mount(2).
    pub(super) data: &'static str,
    /// True if the kernel can write the kind.
    pub(super) is_written: bool,
}

/// The known kinds by their names in `blkid`.
const KINDS: &[(&str, Mounting)] = &[
    // Mounts the top level, which contains all subvolumes, whatever the default subvolume is.
    (
        "btrfs",
        Mounting {
            data: "subvolid=5",
            ..written("btrfs")
        },
    ),
    ("erofs", read("erofs")),
    ("exfat", written("exfat")),
    // The driver of ext4 also mounts its predecessors.
    ("ext2", written("ext4")),
    ("ext3", written("ext4")),
    ("ext4", written("ext4")),
    ("f2fs", written("f2fs")),
    ("hfs", written("hfs")),
    ("hfsplus", written("hfsplus")),
    ("iso9660", read("iso9660")),
    ("jfs", written("jfs")),
    ("nilfs2", written("nilfs2")),
    ("ntfs", written("ntfs")),
    ("squashfs", read("squashfs")),
    ("udf", written("udf")),
    (
        "ufs",
        Mounting {
            data: "ufstype=ufs2",
            ..written("ufs")
        },
    ),
    ("vfat", written("vfat")),
    ("xfs", written("xfs")),
];

const fn written(kernel_name: &'static str) -> Mounting {
    Mounting {
        kernel_name,
        data: "",
        is_written: true,
    }
}

const fn read(kernel_name: &'static str) -> Mounting {
    Mounting {
        is_written: false,
        ..written(kernel_name)
    }
}

/// The first kernel whose `ntfs` driver writes. Before it, that name means an old read-only driver
/// or ntfs3's emulation of it. (ntfs3 of 7.2.12 crashes on a directory of 250 files.)
const NTFS_WRITES: (u32, u32) = (7, 1);

impl Mounting {
    /// Returns the kind's name in a kernel of this release, such as `7.2.12` or
    /// `6.1.0-56-cloud-amd64`.
    pub(super) fn name_in(&self, release: &str) -> &'static str {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut number = || {
            numbers
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0)
        };
        let version: (u32, u32) = (number(), number());
        match self.kernel_name {
            "ntfs" if version < NTFS_WRITES => "ntfs3",
            name => name,
        }
    }
}

/// Returns the kernel's name and options for a kind of `blkid`; `None` if the kernel does not know
/// it.
pub(super) fn of(kind: &str) -> Option<Mounting> {
    let found = KINDS.iter().find(|(name, _)| *name == kind);
    found.map(|(_, mounting)| *mounting)
}

/// Returns the kernel's name and options for a kind that is mounted with this access.
///
/// # Errors
/// Fails with `Unsupported` if the kernel does not know the kind, or cannot write it.
pub(super) fn for_access(kind: &str, access: Access) -> Result<Mounting> {
    let unsupported = |reason| Error::new(ErrorKind::Unsupported, reason);
    let mounting = of(kind).ok_or_else(|| {
        unsupported(format!(
            "filesystem {kind} is not supported by the microVM's kernel"
        ))
    })?;
    if access == Access::ReadWrite && !mounting.is_written {
        return Err(unsupported(format!("{kind} is a read-only format")));
    }
    Ok(mounting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_kernels_names() {
        let ntfs = of("ntfs").unwrap();
        assert_eq!(ntfs.name_in("7.2.12"), "ntfs");
        assert_eq!(ntfs.name_in("6.12.0-1-amd64"), "ntfs3");
        assert_eq!(of("xfs").unwrap().name_in("6.1"), "xfs");
        assert_eq!(of("squashfs").map(|kind| kind.is_written), Some(false));
        assert_eq!(of("zfs_member"), None);
    }
}
