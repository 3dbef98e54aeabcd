//! The trait that a filesystem driver implements.

use std::fmt::Debug;
use std::time::Duration;

use crate::{Error, ErrorKind, FileAttributes, FileType, InodeNumber, Metadata, Result};

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name: any bytes but `/` and NUL, at least one. `.` and `..` are among the entries.
    pub name: Vec<u8>,
    /// The file that it names.
    pub inode: InodeNumber,
    /// Its type, where the directory itself says so; else ask for the metadata.
    pub file_type: Option<FileType>,
    /// Where the entry after this one begins: what to give [`FsRead::read_dir`] to go on there.
    /// Never zero, and unique within the directory.
    pub cookie: u64,
}

/// The entries of a directory; ends after the first error.
pub type DirEntries<'a> = Box<dyn Iterator<Item = Result<DirEntry>> + Send + 'a>;

/// A run of a file that is stored in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// Where the run begins in the file, in bytes.
    pub offset: u64,
    /// Its length in bytes; never zero. The last one ends where the file does.
    pub len_bytes: u64,
    /// How it is stored.
    pub kind: FileExtentKind,
}

/// How a run of a file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileExtentKind {
    /// Stored contiguously from this byte of the filesystem's device on.
    Stored {
        /// Byte of the filesystem's device.
        device_offset: u64,
    },
    /// Stored, but not as plain bytes at one place (within the inode, in a journal, compressed, remote).
    Inline,
    /// Not stored: reads as zeroes. An allocated but unwritten run counts as one.
    Hole,
}

/// The runs of a file in order; ends after the first error.
pub type FileExtents<'a> = Box<dyn Iterator<Item = Result<FileExtent>> + Send + 'a>;

/// What `statfs` tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The unit of the block counts, in bytes.
    pub block_size: u32,
    /// The unit of allocation, in bytes: a block, or where the filesystem has them (ext4's bigalloc) a
    /// cluster of blocks.
    pub allocation_size: u32,
    /// Blocks in all, without the filesystem's own overhead where the kernel leaves it out, too.
    pub blocks: u64,
    /// Blocks not in use.
    pub blocks_free: u64,
    /// Blocks not in use that anybody may use (the rest is reserved for root).
    pub blocks_available: u64,
    /// Inodes in all.
    pub inodes: u64,
    /// Inodes not in use.
    pub inodes_free: u64,
    /// The longest name, in bytes.
    pub name_max: u32,
}

/// What a filesystem says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The kind as `blkid` and fstab(5) name it: `ext4`.
    pub kind: String,
    /// The label, as bytes; empty without one.
    pub label: Vec<u8>,
    /// The UUID as `blkid` prints it.
    pub uuid: Option<String>,
    /// Names of the features in use, as the kind's own tools spell them.
    pub features: Vec<String>,
    /// What a careful reader should know: `not cleanly unmounted`, `journal replayed in memory`.
    pub notes: Vec<String>,
}

/// A filesystem that can be read, by inode number, from any number of threads at once.
///
/// An inode number comes from [`root`](Self::root), [`lookup`](Self::lookup) or
/// [`read_dir`](Self::read_dir); any other answers [`NotFound`](crate::ErrorKind::NotFound) (or
/// whatever file has that number), and never does harm.
///
/// # Errors
/// `Io` when the device fails, `Corrupt` when a structure makes no sense, `Unsupported` when it
/// needs a feature that the driver lacks (another driver may be tried then, and only then).
pub trait FsRead: Debug + Send + Sync {
    /// What the filesystem says of itself.
    fn identity(&self) -> Identity;

    /// The root directory.
    fn root(&self) -> InodeNumber;

    /// The file that `name` names in `dir`: exactly these bytes (the driver folds case where the
    /// directory asks for it). `.` and `..` are found like any name.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber>;

    /// What `stat` tells of `inode`.
    fn metadata(&self, inode: InodeNumber) -> Result<Metadata>;

    /// Reads into `buf` from byte `offset` on. Returns how much was read: less than `buf` holds
    /// only at the end of the file, 0 at it and past it. Holes read as zeroes.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for what has no contents; `Unsupported` for encrypted contents.
    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// The entries of `dir`, `.` and `..` first or where they stand, from `cookie` on: 0 for all,
    /// or [`DirEntry::cookie`] of the last one seen.
    ///
    /// # Errors
    /// `NotADirectory`.
    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>>;

    /// The target of a symlink.
    ///
    /// # Errors
    /// `Invalid` for what is none.
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>>;

    /// The value of one extended attribute by its whole name (`user.mime_type`); `None` without it.
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The whole names of all extended attributes, POSIX ACLs among them
    /// (`system.posix_acl_access`).
    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>>;

    /// What `statfs` tells.
    fn statistics(&self) -> Result<Statistics>;

    /// The same for the filesystem that a file is on, where several are shown as one.
    fn statistics_at(&self, inode: InodeNumber) -> Result<Statistics> {
        let _ = inode;
        self.statistics()
    }

    /// Which of the filesystems that are shown as one the file is on: 0 is the root's.
    fn mount_of(&self, inode: InodeNumber) -> usize {
        let _ = inode;
        0
    }

    /// The runs of a file from the one that holds byte `offset` on (which is cut to begin there).
    /// Empty at the end of the file and past it.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for what has no contents.
    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>>;

    /// The path of the directory that is the root of a subvolume (of btrfs), by its number; without one,
    /// of the subvolume that a kernel mounts when it isn't told which. Empty for the filesystem's own root.
    ///
    /// # Errors
    /// `NotFound` without such a subvolume; `Unsupported` where there are none, or what reads the
    /// filesystem does not show them at all.
    fn subvolume(&self, id: Option<u64>) -> Result<Vec<u8>> {
        let _ = id;
        Err(Error::new(
            ErrorKind::Unsupported,
            "the filesystem has no subvolumes",
        ))
    }

    /// Whether one directory may have several numbers: seen at two places, it has two parents. Who
    /// caches what a directory holds must ask again then.
    fn has_aliases(&self) -> bool {
        false
    }

    /// Returns the attributes of `inode` that chattr(1) changes. The default knows those that
    /// [`metadata`](Self::metadata) tells.
    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        Ok(FileAttributes {
            flags: self.metadata(inode)?.flags.to_bits(),
            project: 0,
        })
    }

    /// Returns the unit of the times that files can have: a power of ten, at most a second. What is
    /// below it is lost.
    fn time_granularity(&self) -> Duration {
        Duration::from_nanos(1)
    }

    /// Says that the metadata of these will be asked for soon, so that a driver may fetch it in one
    /// go. Never fails; the default does nothing.
    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        let _ = inodes;
    }

    /// Says that these bytes of the file will be read soon. Never fails; the default does nothing.
    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let _ = (inode, offset, len_bytes);
    }
}
