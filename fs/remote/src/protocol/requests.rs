//! What the host asks.

use diskfs_vfs::{Device, Fallocate, NewAttributes, NewKind, RenameMode, SetXattr, SyncFile};
use serde::{Deserialize, Serialize};

use super::attributes::Change;
use super::programs::{Place, Program};

/// What is to be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRequest {
    /// The device: its name below `/dev` (`vda`), or the serial number of a virtio disk.
    pub device: String,
    /// The kind of filesystem, as the kernel names it.
    pub kind: String,
    /// Whether it is written.
    pub read_only: bool,
    /// The filesystem's own options, as mount(8) takes them after `-o`, with commas between them.
    pub options: String,
    /// How large the device is, rounded down to sectors of 512 bytes: what it is mounted for may have come after
    /// the machine was started. 0 when that is not known.
    pub size_bytes: u64,
}

impl MountRequest {
    /// To be written, without options.
    pub fn new(device: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            device: device.into(),
            kind: kind.into(),
            read_only: false,
            options: String::new(),
            size_bytes: 0,
        }
    }
}

/// What the host asks. Variants are added at the end: the numbers are the protocol's.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request<'a> {
    /// Mounts; answered with [`Mounted`](super::Reply::Mounted).
    Mount(MountRequest),
    /// Unmounts; answered when the device is durable.
    Unmount {
        /// The filesystem's number.
        filesystem: u32,
    },
    /// Unmounts everything and ends.
    ShutDown,
    /// One call of a filesystem.
    In {
        /// The filesystem's number.
        filesystem: u32,
        /// The call.
        #[serde(borrow)]
        operation: Operation<'a>,
    },
    /// Shows a directory at a second place, until everything is unmounted.
    Bind {
        /// The directory.
        from: Place,
        /// Where it is shown, too.
        to: Place,
    },
    /// Starts a program whose root directory this is; answered with
    /// [`Started`](super::Reply::Started).
    Start {
        /// The root. `/proc` and what else programs count on is mounted below it.
        root: Place,
        /// The program.
        program: Program,
    },
    /// Hands the bytes behind the message to a program's standard input, and waits until it takes some
    /// of them; without any, closes it.
    Input {
        /// The program's number.
        program: u32,
    },
    /// Waits until a program has written something or has ended; that it did is told once.
    Output {
        /// The program's number.
        program: u32,
    },
    /// Sends a signal to a program and what it started.
    Signal {
        /// The program's number.
        program: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Sets the machine's network up, if it has one.
    Connect,
}

impl Request<'_> {
    /// Whether it waits until a program wants it to end.
    pub const fn waits_for_a_program(&self) -> bool {
        matches!(self, Self::Input { .. } | Self::Output { .. })
    }
}

/// One call of a filesystem, as the methods of `FsRead` and `FsWrite` are, or several of them in one
/// go. Variants are added at the end.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the method")]
pub enum Operation<'a> {
    /// `lookup` with the metadata.
    Lookup {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// `metadata`.
    Metadata { inode: u64 },
    /// `read_dir` with the metadata of each entry, as many as there is room for.
    List { dir: u64, cookie: u64 },
    /// `read_at`.
    Read { inode: u64, offset: u64, len: u32 },
    /// `read_link`; the target comes behind the message.
    ReadLink { inode: u64 },
    /// `xattr`; the value comes behind the message.
    Xattr {
        inode: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// `list_xattrs`; the names come behind the message, each with a NUL at its end.
    ListXattrs { inode: u64 },
    /// `statistics`.
    Statistics,
    /// `extents_of`, as many as there is room for.
    Extents { inode: u64, offset: u64 },
    /// `create` with the new file's metadata.
    Create {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        #[serde(borrow)]
        kind: Kind<'a>,
        file: NewFile,
    },
    /// `create_unnamed`, with the metadata.
    CreateUnnamed { dir: u64, file: NewFile },
    /// `link`.
    Link {
        inode: u64,
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// `unlink`. A file that goes with its last name is held when it is to be kept, until
    /// [`Release`](Self::Release).
    Unlink {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        keep: bool,
    },
    /// `rmdir`; the same.
    Rmdir {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        keep: bool,
    },
    /// `rename`; the same for what is replaced.
    Rename {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        to_dir: u64,
        #[serde(borrow)]
        to_name: &'a [u8],
        mode: Renaming,
        keep: bool,
    },
    /// `write_at`; the data comes behind the message.
    Write { inode: u64, offset: u64 },
    /// `set_len`, with the new metadata.
    SetLen { inode: u64, size_bytes: u64 },
    /// `fallocate`.
    Fallocate {
        inode: u64,
        offset: u64,
        len_bytes: u64,
        what: Allocation,
    },
    /// `set_metadata`, with the new metadata.
    SetMetadata { inode: u64, change: Change },
    /// `set_xattr`; the value comes behind the message.
    SetXattr {
        inode: u64,
        #[serde(borrow)]
        name: &'a [u8],
        how: Setting,
    },
    /// `remove_xattr`.
    RemoveXattr {
        inode: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// `release` of a file that was kept.
    Release { inode: u64 },
    /// `sync_file`.
    SyncFile { inode: u64, what: Syncing },
    /// `sync`.
    Sync,
    /// `subvolume`; the path comes behind the message.
    Subvolume { id: Option<u64> },
}

/// [`NewKind`] as it goes over the stream.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the kinds themselves")]
pub enum Kind<'a> {
    Regular,
    Directory,
    Symlink(&'a [u8]),
    CharacterDevice(u32, u32),
    BlockDevice(u32, u32),
    Fifo,
    Socket,
}

impl<'a> From<NewKind<'a>> for Kind<'a> {
    fn from(kind: NewKind<'a>) -> Self {
        match kind {
            NewKind::Regular => Self::Regular,
            NewKind::Directory => Self::Directory,
            NewKind::Symlink(target) => Self::Symlink(target),
            NewKind::CharacterDevice(Device { major, minor }) => {
                Self::CharacterDevice(major, minor)
            }
            NewKind::BlockDevice(Device { major, minor }) => Self::BlockDevice(major, minor),
            NewKind::Fifo => Self::Fifo,
            NewKind::Socket => Self::Socket,
        }
    }
}

impl<'a> From<Kind<'a>> for NewKind<'a> {
    fn from(kind: Kind<'a>) -> Self {
        match kind {
            Kind::Regular => Self::Regular,
            Kind::Directory => Self::Directory,
            Kind::Symlink(target) => Self::Symlink(target),
            Kind::CharacterDevice(major, minor) => Self::CharacterDevice(Device { major, minor }),
            Kind::BlockDevice(major, minor) => Self::BlockDevice(Device { major, minor }),
            Kind::Fifo => Self::Fifo,
            Kind::Socket => Self::Socket,
        }
    }
}

/// [`NewAttributes`] as it goes over the stream.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct NewFile {
    permissions: u16,
    umask: u16,
    uid: u32,
    gid: u32,
}

impl From<&NewAttributes> for NewFile {
    fn from(attributes: &NewAttributes) -> Self {
        Self {
            permissions: attributes.permissions,
            umask: attributes.umask,
            uid: attributes.uid,
            gid: attributes.gid,
        }
    }
}

impl From<NewFile> for NewAttributes {
    fn from(raw: NewFile) -> Self {
        Self {
            permissions: raw.permissions & 0o7777,
            umask: raw.umask & 0o777,
            uid: raw.uid,
            gid: raw.gid,
        }
    }
}

/// Makes an enum that goes over the stream, of the same variants as another one.
macro_rules! mirror {
    ($(#[$doc:meta])* $name:ident = $of:ident { $($variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "as the variants of what it stands for")]
        pub enum $name {
            $($variant),*
        }

        impl From<$of> for $name {
            fn from(value: $of) -> Self {
                match value {
                    $($of::$variant => Self::$variant),*
                }
            }
        }

        impl From<$name> for $of {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => Self::$variant),*
                }
            }
        }
    };
}

mirror! {
    /// [`RenameMode`] as it goes over the stream.
    Renaming = RenameMode { Replace, NoReplace, Exchange, Whiteout, NoReplaceWhiteout }
}

mirror! {
    /// [`Fallocate`] as it goes over the stream.
    Allocation = Fallocate {
        Allocate,
        AllocateKeepSize,
        PunchHole,
        ZeroRange,
        ZeroRangeKeepSize,
        CollapseRange,
        InsertRange,
    }
}

mirror! {
    /// [`SetXattr`] as it goes over the stream.
    Setting = SetXattr { Any, Create, Replace }
}

mirror! {
    /// [`SyncFile`] as it goes over the stream.
    Syncing = SyncFile { Data, All }
}
