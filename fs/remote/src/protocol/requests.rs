//! The requests of the host.

use diskfs_vfs::{Device, Fallocate, NewAttributes, NewKind, RenameMode, SetXattr, SyncFile};
use serde::{Deserialize, Serialize};

use super::attributes::Change;
use super::programs::{Program, ProgramDir, TerminalSize};

/// A device of a filesystem to mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountDevice {
    /// The device's name below `/dev` (`vda`), or the serial number of a virtio disk.
    pub name: String,
    /// The size of the device, rounded down to sectors of 512 bytes; 0 if it is unknown. A disk may
    /// be exchanged after the machine was started: then the agent waits until the device has this
    /// size.
    pub size_bytes: u64,
}

/// A request to mount a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRequest {
    /// The device.
    pub device: MountDevice,
    /// The other devices of a filesystem that has several.
    pub other_devices: Vec<MountDevice>,
    /// The kind of filesystem, as the kernel names it.
    pub kind: String,
    /// True if it is mounted read-only.
    pub read_only: bool,
    /// The filesystem's own mount options, separated by commas as after `-o` of mount(8).
    pub options: String,
}

impl MountRequest {
    /// Creates a request to mount one device of unknown size read-write without options.
    pub fn new(device: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            device: MountDevice {
                name: device.into(),
                size_bytes: 0,
            },
            other_devices: Vec::new(),
            kind: kind.into(),
            read_only: false,
            options: String::new(),
        }
    }
}

/// A request of the host. Variants are added at the end: their numbers are part of the protocol.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request<'a> {
    /// Mount a filesystem; answered with [`Mounted`](super::Reply::Mounted).
    Mount(MountRequest),
    /// Unmount a filesystem; answered when the device is durable.
    Unmount {
        /// The filesystem's number.
        filesystem: u32,
    },
    /// Unmount everything and end.
    ShutDown,
    /// A call of a mounted filesystem.
    In {
        /// The filesystem's number.
        filesystem: u32,
        /// The call of the filesystem.
        #[serde(borrow)]
        operation: Operation<'a>,
    },
    /// Bind-mount a directory at a second place until everything is unmounted.
    Bind {
        /// The directory that is mounted.
        from: ProgramDir,
        /// The second place.
        to: ProgramDir,
    },
    /// Start a program with this root directory; answered with [`Started`](super::Reply::Started).
    Start {
        /// The root directory. `/proc` and other usual mounts are made below it.
        root: ProgramDir,
        /// The program to start.
        program: Program,
    },
    /// Pass the bulk to a program's standard input, and wait until the program takes some of it;
    /// without bulk, close the input.
    Input {
        /// The program's number.
        program: u32,
    },
    /// Wait until a program has written something or has ended; the end is reported once.
    Output {
        /// The program's number.
        program: u32,
    },
    /// Send a signal to a program and its process group.
    Signal {
        /// The program's number.
        program: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Set up the machine's network, if it has one.
    Connect,
    /// Tell a program that its terminal has another size.
    Resize {
        /// The program's number.
        program: u32,
        /// The new size.
        size: TerminalSize,
    },
}

impl Request<'_> {
    /// Returns true if the answer may wait for a program without limit.
    pub const fn waits_for_a_program(&self) -> bool {
        matches!(self, Self::Input { .. } | Self::Output { .. })
    }
}

/// A call of a filesystem: a method of `FsRead` or `FsWrite`, or several in one request. Variants
/// are added at the end.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the method")]
pub enum Operation<'a> {
    /// A call of `lookup`, answered with the metadata.
    Lookup {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// A call of `metadata`.
    Metadata { inode: u64 },
    /// A call of `read_dir`, answered with entries and their metadata, as many as fit.
    List { dir: u64, cookie: u64 },
    /// A call of `read_at`.
    Read { inode: u64, offset: u64, len: u32 },
    /// A call of `read_link`; the target is the bulk of the answer.
    ReadLink { inode: u64 },
    /// A call of `xattr`; the value is the bulk of the answer.
    Xattr {
        inode: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// A call of `list_xattrs`; the names are the bulk of the answer, each terminated by a NUL.
    ListXattrs { inode: u64 },
    /// A call of `statistics`.
    Statistics,
    /// A call of `extents_of`, as many as fit.
    Extents { inode: u64, offset: u64 },
    /// A call of `create`, answered with the new file's metadata.
    Create {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        #[serde(borrow)]
        kind: FileKind<'a>,
        file: NewFile,
    },
    /// A call of `create_unnamed`, answered with the metadata.
    CreateUnnamed { dir: u64, file: NewFile },
    /// A call of `link`.
    Link {
        inode: u64,
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// A call of `unlink`. If `keep` is set, a file that loses its last name is held until
    /// [`Release`](Self::Release).
    Unlink {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        keep: bool,
    },
    /// A call of `rmdir`; `keep` as for `unlink`.
    Rmdir {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        keep: bool,
    },
    /// A call of `rename`; `keep` as for `unlink`, for the file that is replaced.
    Rename {
        dir: u64,
        #[serde(borrow)]
        name: &'a [u8],
        to_dir: u64,
        #[serde(borrow)]
        to_name: &'a [u8],
        mode: RenameFlags,
        keep: bool,
    },
    /// A call of `write_at`; the data is the bulk of the request.
    Write { inode: u64, offset: u64 },
    /// A call of `set_len`, answered with the new metadata.
    SetLen { inode: u64, size_bytes: u64 },
    /// A call of `fallocate`.
    Fallocate {
        inode: u64,
        offset: u64,
        len_bytes: u64,
        what: FallocateMode,
    },
    /// A call of `set_metadata`, answered with the new metadata.
    SetMetadata { inode: u64, change: Change },
    /// A call of `set_xattr`; the value is the bulk of the request.
    SetXattr {
        inode: u64,
        #[serde(borrow)]
        name: &'a [u8],
        how: XattrMode,
    },
    /// A call of `remove_xattr`.
    RemoveXattr {
        inode: u64,
        #[serde(borrow)]
        name: &'a [u8],
    },
    /// A call of `release` of a file that the agent keeps.
    Release { inode: u64 },
    /// A call of `sync_file`.
    SyncFile { inode: u64, what: SyncScope },
    /// A call of `sync`.
    Sync,
    /// A call of `subvolume`; the path is the bulk of the answer.
    Subvolume { id: Option<u64> },
    /// A call of `read_at` for each of these files, from its beginning; the contents are the bulk
    /// of the answer, one after the other. [`encode_file_reads`](super::encode_file_reads) makes
    /// the list.
    ReadFiles {
        #[serde(borrow)]
        files: &'a [u8],
    },
}

/// A [`NewKind`] in its wire format.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the kinds themselves")]
pub enum FileKind<'a> {
    Regular,
    Directory,
    Symlink(&'a [u8]),
    CharacterDevice(u32, u32),
    BlockDevice(u32, u32),
    Fifo,
    Socket,
}

impl<'a> From<NewKind<'a>> for FileKind<'a> {
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

impl<'a> From<FileKind<'a>> for NewKind<'a> {
    fn from(kind: FileKind<'a>) -> Self {
        match kind {
            FileKind::Regular => Self::Regular,
            FileKind::Directory => Self::Directory,
            FileKind::Symlink(target) => Self::Symlink(target),
            FileKind::CharacterDevice(major, minor) => {
                Self::CharacterDevice(Device { major, minor })
            }
            FileKind::BlockDevice(major, minor) => Self::BlockDevice(Device { major, minor }),
            FileKind::Fifo => Self::Fifo,
            FileKind::Socket => Self::Socket,
        }
    }
}

/// A [`NewAttributes`] in its wire format.
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

/// Defines a wire enum with the same variants as another enum.
macro_rules! mirror {
    ($(#[$doc:meta])* $name:ident = $of:ident { $($variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "the variants are those of the other enum")]
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
    /// A [`RenameMode`] in its wire format.
    RenameFlags = RenameMode { Replace, NoReplace, Exchange, Whiteout, NoReplaceWhiteout }
}

mirror! {
    /// A [`Fallocate`] in its wire format.
    FallocateMode = Fallocate {
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
    /// A [`SetXattr`] in its wire format.
    XattrMode = SetXattr { Any, Create, Replace }
}

mirror! {
    /// A [`SyncFile`] in its wire format.
    SyncScope = SyncFile { Data, All }
}
