//! A small filesystem in memory, for tests of code that uses [`FsRead`].
//!
//! It is built by path and accepts everything: faults where a test wants them, and names and loops
//! that no valid filesystem has.

mod txtar;
mod writable;

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, PoisonError};

use crate::{
    Device, DirEntries, DirEntry, Error, ErrorKind, FileExtent, FileExtentKind, FileExtents,
    FileFlags, FileType, FsRead, Identity, InodeNumber, Metadata, Result, Statistics, Timestamp,
};

pub use writable::{Limits, Synced, WritableMemoryFs};

/// The root's inode number: that of ext4, so that no code assumes FUSE's 1.
const ROOT: InodeNumber = InodeNumber(2);

/// The inode number of the first file besides the root: that of ext4, too.
const FIRST_FILE: u64 = 11;

/// The unit of allocation.
const BLOCK_BYTES: u64 = 4096;

/// A fault that an access to a file produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Reading its metadata fails.
    Metadata,
    /// Reading the directory fails.
    ReadDir,
    /// Reading the directory's second entry (after `.` and `..`) fails.
    SecondEntry,
    /// Reading its contents fails.
    Read,
    /// Reading its contents panics.
    PanicOnRead,
}

/// An announced read: the file, the offset, the length.
pub type Hint = (InodeNumber, u64, u64);

/// A filesystem in memory. See the [module](self).
#[derive(Debug)]
pub struct MemoryFs {
    nodes: BTreeMap<InodeNumber, Node>,
    faults: BTreeMap<InodeNumber, Fault>,
    hints: Mutex<Vec<Hint>>,
    metadata_hints: Mutex<Vec<Vec<InodeNumber>>>,
}

#[derive(Debug)]
struct Node {
    metadata: Metadata,
    contents: Contents,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Debug)]
enum Contents {
    Directory {
        parent: InodeNumber,
        entries: Vec<(Vec<u8>, InodeNumber)>,
    },
    /// The stored runs by offset; the gaps between them are holes.
    File(BTreeMap<u64, Vec<u8>>),
    Link(Vec<u8>),
    Special,
}

impl Default for MemoryFs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryFs {
    /// Returns a filesystem with only a root directory.
    pub fn new() -> Self {
        let root = Contents::Directory {
            parent: ROOT,
            entries: Vec::new(),
        };
        let node = Node::new(ROOT, FileType::Directory, root);
        Self {
            nodes: [(ROOT, node)].into(),
            faults: BTreeMap::new(),
            hints: Mutex::default(),
            metadata_hints: Mutex::default(),
        }
    }

    /// Creates a directory and its parents.
    ///
    /// # Panics
    /// All methods that create files panic for an invalid path, because that is a fault of the
    /// test.
    pub fn dir(&mut self, path: &str) -> InodeNumber {
        let mut dir = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            dir = self
                .child(dir, name.as_bytes())
                .unwrap_or_else(|| self.add_dir(dir, name));
        }
        dir
    }

    fn add_dir(&mut self, parent: InodeNumber, name: &str) -> InodeNumber {
        self.metadata_mut(parent).links += 1;
        let contents = Contents::Directory {
            parent,
            entries: Vec::new(),
        };
        self.add(parent, name, FileType::Directory, contents)
    }

    /// Creates a file.
    pub fn file(&mut self, path: &str, data: &[u8]) -> InodeNumber {
        self.sparse_file(path, &[(0, data)], data.len().try_into().unwrap())
    }

    /// Creates a file of which only some runs are stored.
    pub fn sparse_file(
        &mut self,
        path: &str,
        runs: &[(u64, &[u8])],
        size_bytes: u64,
    ) -> InodeNumber {
        let stored = runs.iter().filter(|(_, data)| !data.is_empty());
        let stored = stored.map(|(offset, data)| (*offset, data.to_vec()));
        let allocated = runs
            .iter()
            .map(|(_, data)| (data.len() as u64).next_multiple_of(BLOCK_BYTES));
        let allocated = allocated.sum();
        let contents = Contents::File(stored.collect());
        let inode = self.add_at(path, FileType::Regular, contents);
        let metadata = self.metadata_mut(inode);
        metadata.size_bytes = size_bytes;
        metadata.allocated_bytes = allocated;
        inode
    }

    /// Creates a symlink.
    pub fn symlink(&mut self, path: &str, target: &str) -> InodeNumber {
        let contents = Contents::Link(target.into());
        let inode = self.add_at(path, FileType::Symlink, contents);
        let metadata = self.metadata_mut(inode);
        metadata.size_bytes = target.len().try_into().unwrap();
        metadata.permissions = 0o777;
        inode
    }

    /// Creates a device node, FIFO or socket.
    pub fn special(&mut self, path: &str, kind: FileType, device: Option<Device>) -> InodeNumber {
        let inode = self.add_at(path, kind, Contents::Special);
        self.metadata_mut(inode).device = device;
        inode
    }

    /// Adds a hard link, and counts it.
    pub fn hard_link(&mut self, path: &str, inode: InodeNumber) {
        self.entry(path, inode);
        self.metadata_mut(inode).links += 1;
    }

    /// Adds a name without counting it, which can create loops.
    pub fn entry(&mut self, path: &str, inode: InodeNumber) {
        let (dir, name) = self.parent_and_name(path);
        self.raw_entry(dir, name.as_bytes(), inode);
    }

    /// Adds any name, valid or not.
    pub fn raw_entry(&mut self, dir: InodeNumber, name: &[u8], inode: InodeNumber) {
        match &mut self.nodes.get_mut(&dir).unwrap().contents {
            Contents::Directory { entries, .. } => entries.push((name.to_vec(), inode)),
            other => panic!("not a directory: {other:?}"),
        }
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&mut self, inode: InodeNumber, name: &str, value: &[u8]) {
        let xattrs = &mut self.nodes.get_mut(&inode).unwrap().xattrs;
        xattrs.insert(name.into(), value.to_vec());
    }

    /// Returns the metadata for modification.
    pub fn metadata_mut(&mut self, inode: InodeNumber) -> &mut Metadata {
        &mut self.nodes.get_mut(&inode).unwrap().metadata
    }

    /// Makes accesses to a file fail from now on.
    pub fn fail(&mut self, inode: InodeNumber, fault: Fault) {
        self.faults.insert(inode, fault);
    }

    /// Returns true if a path exists; symlinks are not followed.
    pub fn contains(&self, path: &str) -> bool {
        let names = path.split('/').filter(|name| !name.is_empty());
        let mut at = Some(ROOT);
        for name in names {
            at = at.and_then(|dir| self.child(dir, name.as_bytes()));
        }
        at.is_some()
    }

    /// Returns the calls of [`FsRead::will_need`] since the last call of this method.
    pub fn take_hints(&self) -> Vec<Hint> {
        mem::take(&mut self.hints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the calls of [`FsRead::will_need_metadata`] since the last call of this method.
    pub fn take_metadata_hints(&self) -> Vec<Vec<InodeNumber>> {
        let mut hints = self
            .metadata_hints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut hints)
    }

    fn add_at(&mut self, path: &str, kind: FileType, contents: Contents) -> InodeNumber {
        let (dir, name) = self.parent_and_name(path);
        let name = name.to_owned();
        self.add(dir, &name, kind, contents)
    }

    fn add(
        &mut self,
        dir: InodeNumber,
        name: &str,
        kind: FileType,
        contents: Contents,
    ) -> InodeNumber {
        let last = self.nodes.keys().next_back().unwrap().0;
        let inode = InodeNumber((last + 1).max(FIRST_FILE));
        self.nodes.insert(inode, Node::new(inode, kind, contents));
        self.raw_entry(dir, name.as_bytes(), inode);
        inode
    }

    fn parent_and_name<'p>(&mut self, path: &'p str) -> (InodeNumber, &'p str) {
        let (parent, name) = path.rsplit_once('/').unwrap();
        (self.dir(parent), name)
    }

    fn child(&self, dir: InodeNumber, name: &[u8]) -> Option<InodeNumber> {
        let Contents::Directory { entries, .. } = &self.nodes.get(&dir)?.contents else {
            return None;
        };
        let entry = entries.iter().find(|(known, _)| known == name)?;
        Some(entry.1)
    }

    fn node(&self, inode: InodeNumber) -> Result<&Node> {
        self.nodes
            .get(&inode)
            .ok_or_else(|| Error::from(ErrorKind::NotFound).in_inode(inode))
    }

    fn check(&self, inode: InodeNumber, fault: Fault) -> Result<()> {
        if self.faults.get(&inode) == Some(&fault) {
            return Err(injected());
        }
        Ok(())
    }

    fn runs(&self, inode: InodeNumber) -> Result<(&BTreeMap<u64, Vec<u8>>, u64)> {
        let node = self.node(inode)?;
        match &node.contents {
            Contents::File(runs) => Ok((runs, node.metadata.size_bytes)),
            Contents::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
            _ => Err(ErrorKind::Invalid.into()),
        }
    }
}

fn injected() -> Error {
    Error::new(ErrorKind::Io, "injected")
}

impl Node {
    fn new(inode: InodeNumber, file_type: FileType, contents: Contents) -> Self {
        let is_dir = file_type == FileType::Directory;
        let size_bytes = if is_dir { BLOCK_BYTES } else { 0 };
        let time = Timestamp {
            seconds: 1_600_000_000,
            nanoseconds: 123_456_789,
        };
        let metadata = Metadata {
            inode,
            generation: 7,
            file_type,
            permissions: if is_dir { 0o755 } else { 0o644 },
            links: if is_dir { 2 } else { 1 },
            uid: 0,
            gid: 0,
            size_bytes,
            allocated_bytes: size_bytes,
            accessed: time,
            modified: time,
            changed: time,
            created: Some(time),
            device: None,
            block_size: 4096,
            flags: FileFlags::default(),
        };
        Self {
            metadata,
            contents,
            xattrs: BTreeMap::new(),
        }
    }
}

impl FsRead for MemoryFs {
    fn identity(&self) -> Identity {
        Identity {
            kind: "memory".into(),
            label: b"testing".into(),
            ..Identity::default()
        }
    }

    fn root(&self) -> InodeNumber {
        ROOT
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let Contents::Directory { parent, .. } = self.node(dir)?.contents else {
            return Err(ErrorKind::NotADirectory.into());
        };
        match name {
            b"." => Ok(dir),
            b".." => Ok(parent),
            name => self.child(dir, name).ok_or(ErrorKind::NotFound.into()),
        }
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.check(inode, Fault::Metadata)?;
        Ok(self.node(inode)?.metadata.clone())
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.check(inode, Fault::Read)?;
        assert_ne!(
            self.faults.get(&inode),
            Some(&Fault::PanicOnRead),
            "injected"
        );
        let (runs, size) = self.runs(inode)?;
        let len = size.saturating_sub(offset).min(buf.len() as u64);
        let wanted = &mut buf[..usize::try_from(len).unwrap()];
        wanted.fill(0);
        for (&start, data) in runs {
            let from = start.max(offset);
            let to = (start + data.len() as u64).min(offset + len);
            if from < to {
                let at = |origin: u64, byte: u64| usize::try_from(byte - origin).unwrap();
                wanted[at(offset, from)..at(offset, to)]
                    .copy_from_slice(&data[at(start, from)..at(start, to)]);
            }
        }
        Ok(wanted.len())
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        self.check(dir, Fault::ReadDir)?;
        let Contents::Directory { parent, entries } = &self.node(dir)?.contents else {
            return Err(ErrorKind::NotADirectory.into());
        };
        let broken_at = (self.faults.get(&dir) == Some(&Fault::SecondEntry)).then_some(3);
        let dots = [(b".".to_vec(), dir), (b"..".to_vec(), *parent)];
        let all = dots.into_iter().chain(entries.iter().cloned());
        let numbered = (0..).zip(all).skip(usize::try_from(cookie).unwrap());
        Ok(Box::new(numbered.map(move |(index, (name, inode))| {
            if broken_at == Some(index) {
                return Err(injected());
            }
            let file_type = self.nodes.get(&inode).map(|node| node.metadata.file_type);
            Ok(DirEntry {
                name,
                inode,
                file_type,
                cookie: index + 1,
            })
        })))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        match &self.node(inode)?.contents {
            Contents::Link(target) => Ok(target.clone()),
            _ => Err(ErrorKind::Invalid.into()),
        }
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.node(inode)?.xattrs.get(name).cloned())
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        Ok(self.node(inode)?.xattrs.keys().cloned().collect())
    }

    fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics {
            block_size: 4096,
            allocation_size: 4096,
            blocks: 1000,
            blocks_free: 300,
            blocks_available: 200,
            inodes: 65536,
            inodes_free: 65536 - self.nodes.len() as u64,
            name_max: 255,
        })
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let (runs, size) = self.runs(inode)?;
        let mut extents = Vec::new();
        let mut add = |from: u64, to: u64, kind| {
            let from = from.max(offset);
            let to = to.min(size);
            if from < to {
                extents.push(Ok(FileExtent {
                    offset: from,
                    len_bytes: to - from,
                    kind,
                }));
            }
        };
        let mut end = 0;
        for (&start, data) in runs {
            add(end, start, FileExtentKind::Hole);
            end = start + data.len() as u64;
            add(start, end, FileExtentKind::Inline);
        }
        add(end, size, FileExtentKind::Hole);
        Ok(Box::new(extents.into_iter()))
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        let mut hints = self
            .metadata_hints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        hints.push(inodes.to_vec());
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        hints.push((inode, offset, len_bytes));
    }
}
