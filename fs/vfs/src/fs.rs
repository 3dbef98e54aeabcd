//! The trait that a filesystem driver implements.

use std::fmt::Debug;
use std::time::Duration;

use crate::{
    Error, ErrorKind, FileAttributes, FileType, FreeRanges, InodeNumber, Metadata, Result,
};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name: any bytes except `/` and NUL, at least one. `.` and `..` are entries, too.
    pub name: Vec<u8>,
    /// The file that the entry refers to.
    pub inode: InodeNumber,
    /// The type of the file, if the directory stores it; else it is in the metadata.
    pub file_type: Option<FileType>,
    /// The position of the next entry, to be passed to [`FsRead::read_dir`] to continue there.
    /// Never zero, and unique within the directory.
    pub cookie: u64,
}

/// The entries of a directory; the iterator ends after the first error.
pub type DirEntries<'a> = Box<dyn Iterator<Item = Result<DirEntry>> + Send + 'a>;

/// An extent of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// The start of the extent in the file, in bytes.
    pub offset: u64,
    /// The length in bytes; never zero. The last extent ends at the end of the file.
    pub len_bytes: u64,
    /// The kind of storage.
    pub kind: FileExtentKind,
}

/// The kind of storage of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileExtentKind {
    /// Stored contiguously from this byte of the filesystem's device on.
    Stored {
        /// The byte of the filesystem's device.
        device_offset: u64,
    },
    /// Stored, but not as plain contiguous bytes (within the inode, in a journal, compressed,
    /// remote).
    Inline,
    /// Not stored: reads as zeroes. An allocated but unwritten extent counts as a hole.
    Hole,
}

/// The extents of a file in order; the iterator ends after the first error.
pub type FileExtents<'a> = Box<dyn Iterator<Item = Result<FileExtent>> + Send + 'a>;

/// The usage of a filesystem, as statfs(2) returns it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The unit of the block counts, in bytes.
    pub block_size: u32,
    /// The unit of allocation, in bytes: a block, or a cluster of blocks if the filesystem has
    /// those (ext4's bigalloc).
    pub allocation_size: u32,
    /// The total number of blocks, without the filesystem's own overhead where the kernel excludes
    /// it, too.
    pub blocks: u64,
    /// The number of free blocks.
    pub blocks_free: u64,
    /// The number of free blocks that any user can allocate (the rest is reserved for root).
    pub blocks_available: u64,
    /// The total number of inodes.
    pub inodes: u64,
    /// The number of free inodes.
    pub inodes_free: u64,
    /// The length limit of a name, in bytes.
    pub name_max: u32,
}

/// The identity of a filesystem, from its superblock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The kind as `blkid` and fstab(5) name it: `ext4`.
    pub kind: String,
    /// The label, as bytes; empty without one.
    pub label: Vec<u8>,
    /// The UUID as `blkid` prints it.
    pub uuid: Option<String>,
    /// The names of the features in use, as the filesystem's own tools spell them.
    pub features: Vec<String>,
    /// Notes for the user: `not cleanly unmounted`, `journal replayed in memory`.
    pub notes: Vec<String>,
}

/// A filesystem that can be read by inode number, from any number of threads at once.
///
/// An inode number comes from [`root`](Self::root), [`lookup`](Self::lookup) or
/// [`read_dir`](Self::read_dir). Any other number returns [`NotFound`](crate::ErrorKind::NotFound),
/// or the file that has the number, and does no harm.
///
/// # Errors
/// `Io` if the device fails; `Corrupt` for an invalid structure; `Unsupported` for a feature that
/// the driver lacks (only then another driver may be tried).
pub trait FsRead: Debug + Send + Sync {
    /// Returns the identity of the filesystem.
    fn identity(&self) -> Identity;

    /// Returns the root directory.
    fn root(&self) -> InodeNumber;

    /// Returns the file with the name `name` in `dir`. The bytes must match exactly, except that
    /// the driver folds case where the directory requires it. `.` and `..` are found like any other
    /// name.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber>;

    /// Returns the metadata of `inode`, as stat(2) does.
    fn metadata(&self, inode: InodeNumber) -> Result<Metadata>;

    /// Reads into `buf` from byte `offset` on. Returns the number of bytes read: less than `buf`
    /// holds only at the end of the file, and 0 at the end or past it. Holes read as zeroes.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for a file without contents; `Unsupported` for encrypted contents.
    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Returns the entries of `dir` from `cookie` on: 0 for all, or the [`DirEntry::cookie`] of the
    /// last entry seen. `.` and `..` come first, or at their position on disk.
    ///
    /// # Errors
    /// `NotADirectory`.
    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>>;

    /// Returns the target of a symlink.
    ///
    /// # Errors
    /// `Invalid` for another type of file.
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>>;

    /// Returns the value of an extended attribute by its full name (`user.mime_type`); `None` if
    /// there is no such attribute.
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the full names of all extended attributes, including POSIX ACLs
    /// (`system.posix_acl_access`).
    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>>;

    /// Returns the usage of the filesystem, as statfs(2) does.
    fn statistics(&self) -> Result<Statistics>;

    /// Returns the usage of the filesystem that a file is on, in a tree of several filesystems.
    fn statistics_at(&self, inode: InodeNumber) -> Result<Statistics> {
        let _ = inode;
        self.statistics()
    }

    /// Returns the ranges of the filesystem's device that neither a file nor a structure of the
    /// filesystem uses. Their bytes have no meaning, so they may be discarded as long as nobody
    /// writes to the filesystem.
    ///
    /// # Errors
    /// `Unsupported` if the driver does not know, or if the filesystem must first be recovered by
    /// opening it for writing.
    fn free_ranges(&self) -> Result<FreeRanges<'_>> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "listing the free space is not supported for this filesystem",
        ))
    }

    /// Returns the index of the mount that a file is on, in a tree of several filesystems: 0 is the
    /// root's.
    fn mount_of(&self, inode: InodeNumber) -> usize {
        let _ = inode;
        0
    }

    /// Returns the extents of a file from the one with byte `offset` on, which is cut to start
    /// there. The iterator is empty at the end of the file and past it.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for a file without contents.
    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>>;

    /// Returns the path of the root directory of a subvolume (of btrfs) by its ID; without an ID,
    /// of the default subvolume, which a kernel mounts without options. The path of the
    /// filesystem's own root is empty.
    ///
    /// # Errors
    /// `NotFound` if there is no such subvolume; `Unsupported` if the filesystem has no subvolumes,
    /// or the driver does not expose them.
    fn subvolume(&self, id: Option<u64>) -> Result<Vec<u8>> {
        let _ = id;
        Err(Error::new(
            ErrorKind::Unsupported,
            "the filesystem does not support subvolumes",
        ))
    }

    /// Returns true if one directory may have several inode numbers: a directory that is mounted at
    /// two places has two parents. A change through one number is then also visible through the
    /// others, which caches must respect.
    fn has_aliases(&self) -> bool {
        false
    }

    /// Returns the attributes of `inode` that chattr(1) changes. The default returns those in
    /// [`metadata`](Self::metadata).
    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        Ok(FileAttributes {
            flags: self.metadata(inode)?.flags.to_bits(),
            project: 0,
        })
    }

    /// Returns the granularity of file times: a power of ten, at most one second. Smaller fractions
    /// are lost.
    fn time_granularity(&self) -> Duration {
        Duration::from_nanos(1)
    }

    /// Announces reads of the metadata of these inodes, so that a driver can fetch it at once.
    /// Never fails; the default does nothing.
    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        let _ = inodes;
    }

    /// Announces reads of this part of a file. Never fails; the default does nothing.
    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let _ = (inode, offset, len_bytes);
    }
}
