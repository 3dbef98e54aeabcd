//! The jobs that read the files of a disk.

use diskfs_disk::{Disk, ErrorKind, Filesystem, Result, guest};
use diskfs_inspect::{Depth, Report};
use diskfs_vfs::FileType;
use serde::{Deserialize, Serialize};

use super::{Access, JobContext, Phase, Source, enter};

/// Inspects the guest on an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inspect {
    /// The image.
    pub disk: Source,
}

/// Lists a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListFiles {
    /// The image.
    pub disk: Source,
    /// The name of a volume; empty for the tree of the operating system.
    pub volume: String,
    /// The path of the directory.
    pub path: String,
}

/// Reads a part of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadFile {
    /// The image.
    pub disk: Source,
    /// The name of a volume; empty for the tree of the operating system.
    pub volume: String,
    /// The path of the file.
    pub path: String,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes to read, at most.
    pub limit: u32,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The name, which need not be valid UTF-8.
    pub name: Vec<u8>,
    /// The kind of the file.
    pub kind: FileKind,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The permission bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last change of its contents, in seconds since 1970.
    pub modified_seconds: i64,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// The largest number of entries that are listed.
const MAX_ENTRIES: usize = 100_000;

impl Inspect {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<String> {
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, Access::Read)?;
        enter(context, Phase::Prepare)?;
        let found = guest::select_system(&disk, None)?.ok_or_else(|| guest::no_system(&disk))?;
        let report = Report::of(&found.filesystem()?, Depth::Files);
        serde_json::to_string(&report).map_err(|error| {
            diskfs_disk::Error::new(ErrorKind::Other, format!("invalid report: {error}"))
        })
    }
}

impl ListFiles {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<Vec<FileEntry>> {
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, Access::Read)?;
        let fs = tree(&disk, &self.volume)?;
        let dir = fs.node(&self.path, diskfs_vfs::Follow::All)?;
        let mut files = Vec::new();
        for entry in dir.read_dir()?.into_iter().take(MAX_ENTRIES) {
            if matches!(&*entry.name, b"." | b"..") {
                continue;
            }
            let node = dir.below(&entry.name, entry.inode);
            let metadata = node.metadata()?;
            let kind = kind(metadata.file_type);
            files.push(FileEntry {
                target: match kind {
                    FileKind::Symlink => node.read_link()?,
                    _ => Vec::new(),
                },
                name: entry.name,
                kind,
                size_bytes: metadata.size_bytes,
                mode: metadata.permissions.into(),
                uid: metadata.uid,
                gid: metadata.gid,
                modified_seconds: metadata.modified.seconds,
            });
        }
        Ok(files)
    }
}

impl ReadFile {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<Vec<u8>> {
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, Access::Read)?;
        let file = tree(&disk, &self.volume)?.open(&self.path)?;
        let left = file.size_bytes().saturating_sub(self.offset);
        let len = left.min(self.limit.into());
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let got = file.read_at(self.offset.saturating_add(filled as u64), rest)?;
            if got == 0 {
                break;
            }
            filled = filled.saturating_add(got);
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

fn tree(disk: &Disk, volume: &str) -> Result<Filesystem> {
    if !volume.is_empty() {
        return disk.volume(volume)?.filesystem();
    }
    match guest::select_system(disk, None)? {
        Some(system) => system.filesystem(),
        None => disk.filesystem(),
    }
}

fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Regular => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}
