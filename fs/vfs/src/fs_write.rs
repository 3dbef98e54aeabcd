//! The trait of a filesystem that can also be written.

use crate::{
    Device, Error, ErrorKind, FileAttributes, FileFlags, FsRead, InodeNumber, Result, Timestamp,
};

/// The type of a new file, with the data of that type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// An empty regular file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symlink to this target, which has 1 to 4095 bytes.
    Symlink(&'a [u8]),
    /// A character device.
    CharacterDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A FIFO (named pipe).
    Fifo,
    /// A Unix socket.
    Socket,
}

/// The attributes of a new file besides its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewAttributes {
    /// The low 12 bits of `st_mode` that the program requested, before `umask`. A symlink has 0777
    /// whatever the value is.
    pub permissions: u16,
    /// The bits that are removed from `permissions`, unless the directory has a default ACL, which
    /// is used instead (acl(5), "Object creation and default ACLs").
    pub umask: u16,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group. In a directory with the set-group-ID bit, the directory's group is used instead.
    pub gid: u32,
}

impl NewAttributes {
    /// Returns attributes of a file of root, with these permissions and an empty umask.
    pub const fn for_root(permissions: u16) -> Self {
        Self {
            permissions,
            umask: 0,
            uid: 0,
            gid: 0,
        }
    }
}

/// The treatment of the target name of a rename.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// An existing file is replaced: rename(2).
    #[default]
    Replace,
    /// The name must not exist: `RENAME_NOREPLACE`.
    NoReplace,
    /// The name must exist, and the two files exchange names: `RENAME_EXCHANGE`.
    Exchange,
    /// An existing file is replaced, and a whiteout (a character device 0:0) gets the old name:
    /// `RENAME_WHITEOUT`.
    Whiteout,
    /// The name must not exist, and a whiteout gets the old name.
    NoReplaceWhiteout,
}

/// The operation of [`FsWrite::fallocate`] on a range (fallocate(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates holes and keeps existing data. The file grows to the end of the range.
    Allocate,
    /// Allocates holes and keeps existing data. The size does not change.
    AllocateKeepSize,
    /// Deallocates the range, so that it is a hole. The size does not change.
    PunchHole,
    /// Makes the range allocated and reading as zeroes. The file grows to the end of the range.
    ZeroRange,
    /// Makes the range allocated and reading as zeroes. The size does not change.
    ZeroRangeKeepSize,
    /// Removes the range: the data after it moves down. The range must be a multiple of the block
    /// size and end before the end of the file.
    CollapseRange,
    /// Inserts a hole: the data from the start of the range on moves up. The range must be a
    /// multiple of the block size and start before the end of the file.
    InsertRange,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The present time.
    Now,
    /// This point in time.
    At(Timestamp),
}

/// A change of metadata by [`FsWrite::set_metadata`]; fields that are `None` are not changed. The
/// inode change time is set to the present time unless it is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetMetadata {
    /// The low 12 bits of `st_mode`. The file's ACL is adapted (acl(5)).
    pub permissions: Option<u16>,
    /// The owner. The caller must clear set-user-ID and set-group-ID bits itself.
    pub uid: Option<u32>,
    /// The group ID.
    pub gid: Option<u32>,
    /// The time of the last access.
    pub accessed: Option<SetTime>,
    /// The time of the last modification of the contents.
    pub modified: Option<SetTime>,
    /// The time of the last change of the inode.
    pub changed: Option<SetTime>,
    /// The attributes besides the mode: the settable ones (immutable, append-only, no-dump) are
    /// changed; others must have their present value.
    pub flags: Option<FileFlags>,
}

/// The condition for [`FsWrite::set_xattr`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// The attribute may exist or not.
    #[default]
    Any,
    /// The attribute must not exist: `XATTR_CREATE`.
    Create,
    /// The attribute must exist: `XATTR_REPLACE`.
    Replace,
}

/// The part of a file that [`FsWrite::sync_file`] makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncFile {
    /// The contents, and the metadata that is needed to read them: fdatasync(2).
    Data,
    /// Contents and all metadata: fsync(2).
    All,
}

/// The durable changes of a writer that was [abandoned](FsWrite::abandon).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remains {
    /// No change is durable: the filesystem is as it was when it was opened.
    Nothing,
    /// Some changes are durable, or it is unknown which.
    Some,
    /// All changes are durable: only the clean unmount is missing.
    All,
}

/// A filesystem that can be written, from any number of threads at once.
///
/// Every call sees the changes of earlier calls. A change is durable after the next
/// [`sync`](Self::sync), [`sync_file`](Self::sync_file) of the file, or [`close`](Self::close). The
/// documentation of a driver says what a crash leaves of other changes.
///
/// The caller checks permissions; the driver enforces the flags of files (immutable, append-only).
/// The driver also updates the times as POSIX requires, except that reading changes no times.
///
/// # Errors
/// Besides those of [`FsRead`]: `ReadOnly` if the filesystem is not open for writing, or if an
/// error ended writing; `NoSpace`, `QuotaExceeded`; `NotPermitted` for an immutable or append-only
/// file; `Unsupported`, always before any change. A call that fails has changed nothing, except
/// that `write_at` and `fallocate` may be half done.
pub trait FsWrite: FsRead {
    /// Creates a file with the name `name` in `dir`.
    ///
    /// # Errors
    /// `Exists`, `NotADirectory`, `NameTooLong`; `Invalid` for a name that no file can have;
    /// `TooManyNames` if the directory can't have another subdirectory; `NotFound` if `dir` was
    /// removed.
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber>;

    /// Creates a regular file without a name (`O_TMPFILE`), which inherits from `dir`. It is
    /// [held](Self::hold) once, and freed when it is released without having been linked.
    ///
    /// # Errors
    /// `NotADirectory`, `NotFound`.
    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber>;

    /// Adds a hard link to `inode`.
    ///
    /// # Errors
    /// As [`create`](Self::create); `NotPermitted` for a directory; `TooManyNames` if the file
    /// can't have another name; `NotFound` for a file without a name, if it is not held or had a
    /// name before.
    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()>;

    /// Removes a name of a file that is not a directory. The file is freed with its last name and
    /// its last [hold](Self::hold).
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `IsADirectory`.
    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `NotEmpty`; `Invalid` for `.` and `NotEmpty` for `..`.
    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()>;

    /// Renames a file atomically: at any time, and after a crash, at least one of the names exists.
    ///
    /// # Errors
    /// `NotFound`; `Exists`, `NotEmpty`, `IsADirectory`, `NotADirectory` for an existing target;
    /// `Invalid` for moving a directory below itself.
    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()>;

    /// Writes `data` at byte `offset` of a regular file, which grows if necessary. Returns the
    /// number of bytes written, which is less than `data` has only if no space is left.
    ///
    /// # Errors
    /// `NoSpace` if nothing could be written; `FileTooLarge`; `IsADirectory`; `Invalid` for a file
    /// without contents; `Unsupported` for contents that are encrypted or protected by fs-verity.
    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize>;

    /// Sets the size of a regular file in bytes: truncates it, or extends it with a hole.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()>;

    /// Allocates, deallocates, zeroes or moves a range of a regular file, in bytes.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at); `Unsupported` if the storage of the file does not allow it;
    /// `Invalid` for a range that `what` does not allow.
    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()>;

    /// Changes the metadata that stat(2) returns.
    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()>;

    /// Changes the attributes that chattr(1) changes. A flag that the filesystem exposes but that
    /// can't be set keeps its value. The default changes the flags that
    /// [`set_metadata`](Self::set_metadata) supports.
    ///
    /// # Errors
    /// As `set_metadata`; `Unsupported` for a flag or project that can't be set.
    fn set_file_attributes(&self, inode: InodeNumber, wanted: FileAttributes) -> Result<()> {
        let old = self.file_attributes(inode)?;
        let flags = FileFlags::from_bits(wanted.flags);
        let (Some(flags), true) = (flags, wanted.project == old.project) else {
            let reason = "the filesystem does not support these attributes";
            return Err(Error::new(ErrorKind::Unsupported, reason).in_inode(inode));
        };
        let change = SetMetadata {
            flags: Some(flags),
            ..SetMetadata::default()
        };
        self.set_metadata(inode, &change)
    }

    /// Sets an extended attribute by its full name. POSIX ACLs have the format of setxattr(2), and
    /// the file's mode follows an access ACL.
    ///
    /// # Errors
    /// `Exists` and `NoAttribute` according to `how`; `Invalid` for an invalid ACL; `Unsupported`
    /// for a namespace that the filesystem does not have; `NoSpace`.
    fn set_xattr(&self, inode: InodeNumber, name: &[u8], value: &[u8], how: SetXattr)
    -> Result<()>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute` if it does not exist.
    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()>;

    /// Keeps a file alive without a name, as an open file is, until it is [released](Self::release)
    /// as often as it was held. Never fails, and costs next to nothing.
    fn hold(&self, inode: InodeNumber);

    /// Ends a hold. With the last one, a file without a name is freed.
    ///
    /// # Errors
    /// If the file can't be freed; the hold ends in any case.
    fn release(&self, inode: InodeNumber) -> Result<()>;

    /// Changes the UUID of the filesystem that `inode` is in. The change becomes durable like any
    /// other, in order.
    ///
    /// # Errors
    /// `Unsupported` if the driver does not implement it, which is the default, or if metadata in
    /// the filesystem depends on the old UUID.
    fn set_uuid(&self, inode: InodeNumber, uuid: [u8; 16]) -> Result<()> {
        let _ = uuid;
        let reason = "changing the UUID of this filesystem is not supported";
        Err(Error::new(ErrorKind::Unsupported, reason).in_inode(inode))
    }

    /// Makes a file durable. If it was created since the last sync, its name becomes durable, too.
    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()>;

    /// Makes all changes durable.
    fn sync(&self) -> Result<()>;

    /// Returns true if a crash before [`close`](Self::close) returns may leave a part of the
    /// changes since the filesystem was opened: some are committed already, or they can't be
    /// committed in one transaction. The default is true.
    fn is_in_parts(&self) -> bool {
        true
    }

    /// Ends writing: when it returns, all changes are durable and the filesystem is marked as
    /// cleanly unmounted. Later calls can read; changes fail with `ReadOnly`. Dropping the
    /// filesystem does the same, but can't report an error.
    fn close(&self) -> Result<()>;

    /// Ends writing, and discards the changes that are not durable yet, as a crash would: for a
    /// caller that has met an error halfway, including one of [`close`](Self::close). Returns which
    /// changes remain.
    ///
    /// # Errors
    /// `Unsupported` if changes can't be discarded, which is the default: then the filesystem stays
    /// open for writing.
    fn abandon(&self) -> Result<Remains> {
        let reason = "cannot discard the changes on this filesystem";
        Err(Error::new(ErrorKind::Unsupported, reason))
    }
}
