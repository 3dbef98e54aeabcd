//! The trait of a filesystem that can be written, too.

use crate::{
    Device, Error, ErrorKind, FileAttributes, FileFlags, FsRead, InodeNumber, Result, Timestamp,
};

/// What a new file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// An empty regular file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symlink to this target, which is at least 1 byte and at most 4095.
    Symlink(&'a [u8]),
    /// A character device.
    CharacterDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A FIFO.
    Fifo,
    /// A Unix socket.
    Socket,
}

/// What a new file has besides its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewAttributes {
    /// The low 12 bits of `st_mode` as the program asked for them, before `umask`. A symlink has
    /// 0777 whatever stands here.
    pub permissions: u16,
    /// What is taken away from `permissions`, unless the directory has a default ACL, which then
    /// decides in its place (acl(5), "Object creation and default ACLs").
    pub umask: u16,
    /// The owner.
    pub uid: u32,
    /// The group; in a directory with the set-group-id bit, the directory's group is taken.
    pub gid: u32,
}

impl NewAttributes {
    /// For root, with these permissions and no mask.
    pub const fn for_root(permissions: u16) -> Self {
        Self {
            permissions,
            umask: 0,
            uid: 0,
            gid: 0,
        }
    }
}

/// What becomes of the name that a rename goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// What it names is replaced, if anything: rename(2).
    #[default]
    Replace,
    /// It must not exist: `RENAME_NOREPLACE`.
    NoReplace,
    /// It must exist, and the two files change names: `RENAME_EXCHANGE`.
    Exchange,
    /// As `Replace`, and a whiteout (a character device 0:0) takes the old name:
    /// `RENAME_WHITEOUT`.
    Whiteout,
    /// As `NoReplace`, with a whiteout.
    NoReplaceWhiteout,
}

/// What [`FsWrite::fallocate`] does to a range (fallocate(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates what is not; what has data keeps it. The file grows to the range's end.
    Allocate,
    /// The same, and the size stays.
    AllocateKeepSize,
    /// Makes a hole. The size stays.
    PunchHole,
    /// The range reads as zeroes, allocated. The file grows to the range's end.
    ZeroRange,
    /// The same, and the size stays.
    ZeroRangeKeepSize,
    /// Takes the range out: what was behind it follows what was before it. A multiple of the block
    /// size, and not up to the file's end.
    CollapseRange,
    /// Makes room: what was in the range and behind it moves up. A multiple of the block size, and
    /// before the file's end.
    InsertRange,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The time at which it is done.
    Now,
    /// This time.
    At(Timestamp),
}

/// What [`FsWrite::set_metadata`] changes; `None` stays as it is. The time of the inode's change
/// becomes the present one unless it is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetMetadata {
    /// The low 12 bits of `st_mode`. The file's ACL follows (acl(5)).
    pub permissions: Option<u16>,
    /// The owner. Set-user-id and set-group-id bits are the caller's to take away.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Contents last changed.
    pub modified: Option<SetTime>,
    /// Inode last changed.
    pub changed: Option<SetTime>,
    /// Attributes besides the mode: those that can be set (immutable, append-only, no-dump). Others
    /// must be as they are.
    pub flags: Option<FileFlags>,
}

/// Whether [`FsWrite::set_xattr`] makes or changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Either.
    #[default]
    Any,
    /// It must not exist: `XATTR_CREATE`.
    Create,
    /// It must exist: `XATTR_REPLACE`.
    Replace,
}

/// What [`FsWrite::sync_file`] makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncFile {
    /// The contents, and what of the metadata is needed to read them: fdatasync(2).
    Data,
    /// All of it: fsync(2).
    All,
}

/// What is durable of the changes of a writer that was [abandoned](FsWrite::abandon).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remains {
    /// No change: the filesystem is as it was when it was opened.
    Nothing,
    /// Some of them, or nobody can tell which.
    Some,
    /// All of them: only the end in good order is missing.
    All,
}

/// A filesystem that can be written, from any number of threads at once.
///
/// What a call did is seen by every call after it. It is durable when [`sync`](Self::sync), a
/// [`sync_file`](Self::sync_file) of the file, or [`close`](Self::close) returns after it. A driver
/// says in its documentation what a crash leaves of the rest.
///
/// Whoever calls has checked permissions; flags of files (immutable, append-only) are the driver's.
/// Times are the driver's, too, as POSIX has them: reading changes none.
///
/// # Errors
/// Besides those of [`FsRead`]: `ReadOnly` when the filesystem was not opened for writing, or an
/// error ended writing; `NoSpace`, `QuotaExceeded`; `NotPermitted` for an immutable or append-only
/// file; `Unsupported`, always before anything is changed. After an error nothing of the call is
/// done, but for `write_at` and `fallocate`, which may have done a part.
pub trait FsWrite: FsRead {
    /// Makes a file named `name` in `dir`.
    ///
    /// # Errors
    /// `Exists`, `NotADirectory`, `NameTooLong`, `Invalid` for a name that none can have,
    /// `TooManyNames` when the directory can't hold another directory, `NotFound` when `dir` was
    /// removed.
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber>;

    /// Makes a regular file without a name (`O_TMPFILE`), with what it inherits from `dir`. It is
    /// [held](Self::hold) once, and gone when released without having been linked.
    ///
    /// # Errors
    /// `NotADirectory`, `NotFound`.
    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber>;

    /// Gives `inode` one more name.
    ///
    /// # Errors
    /// As [`create`](Self::create); `NotPermitted` for a directory; `TooManyNames` when it can't
    /// have another name; `NotFound` for a file without a name that is not held, or that had one.
    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()>;

    /// Takes a name of a file that is no directory. With its last name and its last
    /// [hold](Self::hold) the file is gone.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `IsADirectory`.
    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `NotEmpty`; `Invalid` for `.` and `NotEmpty` for `..`.
    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()>;

    /// Gives a file another name, in one step: at no time, and after no crash, neither name is
    /// there.
    ///
    /// # Errors
    /// `NotFound`; `Exists`, `NotEmpty`, `IsADirectory`, `NotADirectory` for what is replaced;
    /// `Invalid` for a directory that would go below itself.
    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()>;

    /// Writes `data` at byte `offset` of a regular file, which grows to hold it. Returns how much
    /// was written: less than all only when there is no room for more.
    ///
    /// # Errors
    /// `NoSpace` when nothing could be written; `FileTooLarge`; `IsADirectory`; `Invalid` for what
    /// has no contents; `Unsupported` for encrypted contents and those under fs-verity.
    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize>;

    /// Makes a regular file so long, in bytes: cut, or grown with a hole.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()>;

    /// Allocates, frees, zeroes or moves a range of a regular file, in bytes.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at); `Unsupported` where the file's form does not allow it;
    /// `Invalid` for a range that `what` does not allow.
    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()>;

    /// Changes what `stat` tells.
    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()>;

    /// Changes what chattr(1) can change. A flag that the filesystem shows but nobody can set keeps
    /// its value. The default changes the flags that [`set_metadata`](Self::set_metadata) can.
    ///
    /// # Errors
    /// As `set_metadata`; `Unsupported` for a flag or project that can't be set.
    fn set_file_attributes(&self, inode: InodeNumber, wanted: FileAttributes) -> Result<()> {
        let old = self.file_attributes(inode)?;
        let flags = FileFlags::from_bits(wanted.flags);
        let (Some(flags), true) = (flags, wanted.project == old.project) else {
            let reason = "the filesystem does not have these attributes";
            return Err(Error::new(ErrorKind::Unsupported, reason).in_inode(inode));
        };
        let change = SetMetadata {
            flags: Some(flags),
            ..SetMetadata::default()
        };
        self.set_metadata(inode, &change)
    }

    /// Sets one extended attribute by its whole name. POSIX ACLs are in the form of setxattr(2),
    /// and the file's mode follows an access ACL.
    ///
    /// # Errors
    /// `Exists` and `NoAttribute` as `how` says; `Invalid` for a broken ACL; `Unsupported` for a
    /// namespace that the filesystem does not have; `NoSpace` when there is no room for it.
    fn set_xattr(&self, inode: InodeNumber, name: &[u8], value: &[u8], how: SetXattr)
    -> Result<()>;

    /// Removes one extended attribute.
    ///
    /// # Errors
    /// `NoAttribute` without it.
    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()>;

    /// Keeps a file alive without a name until it is [released](Self::release) as often as it was
    /// held: as an open file is. Never fails, and costs next to nothing.
    fn hold(&self, inode: InodeNumber);

    /// Ends a hold. With the last one, a file without a name is gone.
    ///
    /// # Errors
    /// When the file can't be removed; it is no longer held in any case.
    fn release(&self, inode: InodeNumber) -> Result<()>;

    /// Gives the filesystem that `inode` is in another UUID. It is a change as any other: durable with those before it.
    ///
    /// # Errors
    /// `Unsupported` where the driver can't do it, which is the default, and where something in the filesystem depends
    /// on the old UUID.
    fn set_uuid(&self, inode: InodeNumber, uuid: [u8; 16]) -> Result<()> {
        let _ = uuid;
        let reason = "the UUID of this filesystem can't be changed";
        Err(Error::new(ErrorKind::Unsupported, reason).in_inode(inode))
    }

    /// Makes one file durable. When it returns, and the file had been created, its name is durable
    /// too.
    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()>;

    /// Makes everything durable.
    fn sync(&self) -> Result<()>;

    /// Returns whether a crash before [`close`](Self::close) returns may leave a part of what was changed
    /// since the filesystem was opened: something of it is committed, or it can't be committed in one
    /// step, which is the default.
    fn is_in_parts(&self) -> bool {
        true
    }

    /// Ends writing: everything is durable and marked as cleanly unmounted when it returns. What is
    /// called afterwards reads, or answers `ReadOnly`. Dropping the filesystem does the same, and
    /// can't say that it failed.
    fn close(&self) -> Result<()>;

    /// Ends writing, and drops what is not durable yet, as a crash would: for a caller that has met
    /// an error halfway, also one of [`close`](Self::close). Returns what was durable before.
    ///
    /// # Errors
    /// `Unsupported` where changes can't be dropped, which is the default: then writing goes on.
    fn abandon(&self) -> Result<Remains> {
        let reason = "what was changed can't be taken back on this filesystem";
        Err(Error::new(ErrorKind::Unsupported, reason))
    }
}
