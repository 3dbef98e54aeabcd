//! The elements of short sequences: operations on a small tree of files, and what makes them
//! durable.
//!
//! The bounds are those of Mohan et al., "Finding Crash-Consistency Bugs with Bounded Black-Box
//! Crash Testing", 2018: few files, few offsets, short sequences, and a crash after each of them.

use anyhow::{Context, Result};
use diskfs_vfs::{Fallocate, NewAttributes, RenameMode, SetMetadata, SetXattr, SyncFile};

use crate::operation::{Bytes, FileId, Operation, OwnedNewKind};

/// The directories and files that a sequence starts with, by the operation that makes them.
const A: FileId = FileId::made_by(0);
const B: FileId = FileId::made_by(1);
const FOO: FileId = FileId::made_by(2);
const BAR: FileId = FileId::made_by(4);

/// The size of `a/foo`: two blocks and a part of a third.
const FOO_BYTES: usize = 9000;
/// The size of `a/bar`: less than a block.
const BAR_BYTES: usize = 900;

/// An element: a name, and its operations, of which the first has the given number.
#[derive(Debug, Clone, Copy)]
pub struct Element {
    /// The name on the command line.
    pub name: &'static str,
    make: fn(usize) -> Vec<Operation>,
}

impl Element {
    /// Returns the element with this name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named(name: &str) -> Result<Self> {
        let found = ELEMENTS.iter().find(|element| element.name == name);
        found
            .copied()
            .with_context(|| format!("unknown element `{name}`"))
    }

    /// Returns the operations, of which the first has this number.
    pub fn operations(&self, first: usize) -> Vec<Operation> {
        (self.make)(first)
    }
}

/// The call after an element that makes its result durable, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// No call.
    Nothing,
    /// fsync of the file that it made or changed.
    Fsync,
    /// fdatasync of this file.
    Fdatasync,
    /// fsync of the directory `a`.
    FsyncDirectory,
    /// sync.
    Sync,
}

impl Persistence {
    /// All, with their names on the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("-", Self::Nothing),
        ("fsync", Self::Fsync),
        ("fdatasync", Self::Fdatasync),
        ("fsync-dir", Self::FsyncDirectory),
        ("sync", Self::Sync),
    ];

    /// Returns the one with this name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, persistence)| *persistence)
            .with_context(|| format!("unknown persistence `{name}`"))
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, known)| *known == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns the operation that makes the result of `operations` durable; the first of them has
    /// the number `first`.
    pub fn operation(self, operations: &[Operation], first: usize) -> Option<Operation> {
        let file = match operations.first()? {
            Operation::Create { .. } | Operation::CreateUnnamed { .. } => FileId::made_by(first),
            Operation::Unlink { .. } | Operation::Rmdir { .. } | Operation::Rename { .. } => FOO,
            other => *other.files().first()?,
        };
        let sync = |file, what| Some(Operation::SyncFile { file, what });
        match self {
            Self::Nothing => None,
            Self::Fsync => sync(file, SyncFile::All),
            Self::Fdatasync => sync(file, SyncFile::Data),
            Self::FsyncDirectory => sync(A, SyncFile::All),
            Self::Sync => Some(Operation::Sync),
        }
    }
}

fn bytes(name: &str) -> Bytes {
    Bytes(name.as_bytes().to_vec())
}

fn create(dir: FileId, name: &str, kind: OwnedNewKind) -> Operation {
    let attributes = NewAttributes::for_root(match kind {
        OwnedNewKind::Directory => 0o755,
        _ => 0o644,
    });
    Operation::Create {
        dir,
        name: bytes(name),
        kind,
        attributes,
    }
}

const fn write(file: FileId, offset: u64, len: usize) -> Operation {
    Operation::Write { file, offset, len }
}

const fn set_len(file: FileId, size_bytes: u64) -> Operation {
    Operation::SetLen { file, size_bytes }
}

const fn fallocate(offset: u64, len_bytes: u64, what: Fallocate) -> Operation {
    Operation::Fallocate {
        file: FOO,
        offset,
        len_bytes,
        what,
    }
}

fn unlink(dir: FileId, name: &str) -> Operation {
    let name = bytes(name);
    Operation::Unlink { dir, name }
}

fn link(file: FileId, dir: FileId, name: &str) -> Operation {
    let name = bytes(name);
    Operation::Link { file, dir, name }
}

fn rename(from: (FileId, &str), to: (FileId, &str), mode: RenameMode) -> Operation {
    Operation::Rename {
        dir: from.0,
        name: bytes(from.1),
        to_dir: to.0,
        to_name: bytes(to.1),
        mode,
    }
}

fn set_xattr(name: &str, len: usize) -> Operation {
    Operation::SetXattr {
        file: FOO,
        name: bytes(name),
        value: Bytes(vec![b'v'; len]),
        how: SetXattr::Any,
    }
}

fn chmod(permissions: u16) -> Operation {
    Operation::SetMetadata {
        file: FOO,
        change: SetMetadata {
            permissions: Some(permissions),
            ..SetMetadata::default()
        },
    }
}

/// Returns the operations that make the initial files, and make them durable.
pub fn setup() -> Vec<Operation> {
    vec![
        create(FileId::ROOT, "a", OwnedNewKind::Directory),
        create(FileId::ROOT, "b", OwnedNewKind::Directory),
        create(A, "foo", OwnedNewKind::Regular),
        write(FOO, 0, FOO_BYTES),
        create(A, "bar", OwnedNewKind::Regular),
        write(BAR, 0, BAR_BYTES),
        create(B, "empty", OwnedNewKind::Directory),
        set_xattr("user.old", 40),
        Operation::Sync,
    ]
}

macro_rules! elements {
    ($($name:literal => |$first:pat_param| [$($operation:expr),+ $(,)?]),+ $(,)?) => {
        &[$(Element { name: $name, make: |$first| vec![$($operation),+] }),+]
    };
}

/// All elements.
pub const ELEMENTS: &[Element] = elements! {
    "create" => |_| [create(A, "new", OwnedNewKind::Regular)],
    "create-written" => |first| [
        create(A, "new", OwnedNewKind::Regular),
        write(FileId::made_by(first), 0, 5000),
    ],
    "mkdir" => |_| [create(B, "new", OwnedNewKind::Directory)],
    "symlink-short" => |_| [create(A, "link", OwnedNewKind::Symlink { len: 20 })],
    "symlink-long" => |_| [create(A, "link", OwnedNewKind::Symlink { len: 300 })],
    "fifo" => |_| [create(B, "fifo", OwnedNewKind::Fifo)],
    "tmpfile" => |_| [Operation::CreateUnnamed {
        dir: A,
        attributes: NewAttributes::for_root(0o600),
    }],
    "tmpfile-linked" => |first| [
        Operation::CreateUnnamed {
            dir: A,
            attributes: NewAttributes::for_root(0o600),
        },
        write(FileId::made_by(first), 0, 5000),
        link(FileId::made_by(first), B, "linked"),
    ],
    "append" => |_| [write(FOO, FOO_BYTES as u64, 4096)],
    "append-small" => |_| [write(BAR, BAR_BYTES as u64, 100)],
    "append-past-block" => |_| [write(BAR, BAR_BYTES as u64, 8000)],
    "overwrite" => |_| [write(FOO, 0, 4096)],
    "overwrite-part" => |_| [write(FOO, 100, 200)],
    "write-past-end" => |_| [write(FOO, 40_000, 5000)],
    "truncate" => |_| [set_len(FOO, 1000)],
    "truncate-to-block" => |_| [set_len(FOO, 4096)],
    "truncate-to-nothing" => |_| [set_len(FOO, 0)],
    "rewrite" => |_| [set_len(FOO, 0), write(FOO, 0, 6000)],
    "extend" => |_| [set_len(FOO, 30_000)],
    "allocate" => |_| [fallocate(8192, 30_000, Fallocate::Allocate)],
    "allocate-keep-size" => |_| [fallocate(8192, 30_000, Fallocate::AllocateKeepSize)],
    "write-allocated" => |_| [
        fallocate(8192, 30_000, Fallocate::Allocate),
        write(FOO, 20_000, 5000),
    ],
    "punch" => |_| [fallocate(0, 4096, Fallocate::PunchHole)],
    "punch-unaligned" => |_| [fallocate(100, 5000, Fallocate::PunchHole)],
    "zero" => |_| [fallocate(1000, 6000, Fallocate::ZeroRange)],
    "collapse" => |_| [fallocate(0, 8192, Fallocate::CollapseRange)],
    "insert" => |_| [fallocate(0, 8192, Fallocate::InsertRange)],
    "link" => |_| [link(FOO, B, "hard")],
    "unlink" => |_| [unlink(A, "foo")],
    "unlink-small" => |_| [unlink(A, "bar")],
    "unlink-open" => |_| [Operation::Hold { file: FOO }, unlink(A, "foo")],
    "unlink-written" => |_| [
        Operation::Hold { file: FOO },
        unlink(A, "foo"),
        write(FOO, 5000, 9000),
        Operation::Release { file: FOO },
    ],
    "rename" => |_| [rename((A, "foo"), (B, "moved"), RenameMode::Replace)],
    "rename-over" => |_| [rename((A, "foo"), (A, "bar"), RenameMode::Replace)],
    "rename-no-replace" => |_| [rename((A, "bar"), (A, "other"), RenameMode::NoReplace)],
    "exchange" => |_| [rename((A, "foo"), (A, "bar"), RenameMode::Exchange)],
    "exchange-directory" => |_| [
        rename((A, "foo"), (B, "empty"), RenameMode::Exchange),
    ],
    "whiteout" => |_| [rename((A, "bar"), (B, "moved"), RenameMode::Whiteout)],
    "rename-directory" => |_| [
        rename((FileId::ROOT, "a"), (B, "a"), RenameMode::Replace),
    ],
    "rename-over-directory" => |_| [
        rename((FileId::ROOT, "a"), (B, "empty"), RenameMode::Replace),
    ],
    "replace-by-rename" => |first| [
        create(A, "temporary", OwnedNewKind::Regular),
        write(FileId::made_by(first), 0, 7000),
        rename((A, "temporary"), (A, "foo"), RenameMode::Replace),
    ],
    "rmdir" => |_| [Operation::Rmdir { dir: B, name: bytes("empty") }],
    "xattr-replace" => |_| [set_xattr("user.old", 60)],
    "xattr-large" => |_| [set_xattr("user.new", 600)],
    "xattr-remove" => |_| [Operation::RemoveXattr {
        file: FOO,
        name: bytes("user.old"),
    }],
    "chmod" => |_| [chmod(0o600)],
};
