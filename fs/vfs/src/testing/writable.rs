//! A complete writable filesystem in memory: the model of the requirements of [`FsWrite`].
//!
//! It behaves like POSIX and the kernel's ext4, in the simplest way, under one lock. Drivers are
//! compared with it, and code that uses a driver is tested on it.

mod acl;
mod blocks;
mod names;
mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{
    DirEntries, DirEntry, Error, ErrorKind, Fallocate, FileExtents, FsRead, FsWrite, Identity,
    InodeNumber, Metadata, NewAttributes, NewKind, RenameMode, Result, SetMetadata, SetXattr,
    Statistics, SyncFile, Timestamp,
};

use super::{BLOCK_BYTES, FIRST_FILE, ROOT};
use node::{Body, Node};

const NAME_MAX: usize = 255;

/// The limit on hard links of a file and on subdirectories of a directory, as in ext4
/// (`EXT4_LINK_MAX`).
const MAX_LINKS: u32 = 65_000;

/// The capacity of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of blocks of 4096 bytes for the contents of files.
    pub blocks: u64,
    /// The number of files.
    pub inodes: u64,
}

impl Default for Limits {
    /// Returns a capacity of 16 GiB and a million files.
    fn default() -> Self {
        Self {
            blocks: 4 << 20,
            inodes: 1 << 20,
        }
    }
}

/// A sync that was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// A sync of one file.
    File(InodeNumber, SyncFile),
    /// A sync of the filesystem.
    All,
    /// The close of the filesystem.
    Closed,
}

/// A writable filesystem in memory. See the [module](self). A clone is an independent copy.
#[derive(Debug, Default)]
pub struct WritableMemoryFs {
    state: RwLock<FsState>,
}

#[derive(Debug, Clone)]
struct FsState {
    nodes: BTreeMap<InodeNumber, Node>,
    /// Inode numbers that were used and are free again.
    free: BTreeSet<InodeNumber>,
    generation: u32,
    limits: Limits,
    used_blocks: u64,
    clock: fn() -> Timestamp,
    refusal: Option<ErrorKind>,
    synced: Vec<Synced>,
    write_count: u64,
}

impl Default for FsState {
    fn default() -> Self {
        Self::with_clock(Timestamp::now)
    }
}

impl FsState {
    fn with_clock(clock: fn() -> Timestamp) -> Self {
        Self {
            nodes: [(ROOT, Node::root(clock()))].into(),
            free: BTreeSet::new(),
            generation: 0,
            limits: Limits::default(),
            used_blocks: 0,
            clock,
            refusal: None,
            synced: Vec::new(),
            write_count: 0,
        }
    }
}

impl Clone for WritableMemoryFs {
    fn clone(&self) -> Self {
        Self {
            state: RwLock::new(self.read().clone()),
        }
    }
}

impl WritableMemoryFs {
    /// Returns an empty filesystem with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty filesystem with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        let fs = Self::new();
        fs.write().limits = limits;
        fs
    }

    /// Returns an empty filesystem whose files get their times from this clock.
    pub fn with_clock(clock: fn() -> Timestamp) -> Self {
        Self {
            state: RwLock::new(FsState::with_clock(clock)),
        }
    }

    /// Makes all changes fail with this kind from now on; `None` ends that.
    pub fn refuse(&self, kind: Option<ErrorKind>) {
        self.write().refusal = kind;
    }

    /// Returns the syncs since the last call of this method.
    pub fn take_synced(&self) -> Vec<Synced> {
        std::mem::take(&mut self.write().synced)
    }

    /// Returns the number of writes to files.
    pub fn write_count(&self) -> u64 {
        self.read().write_count
    }

    /// Returns the number of files, including those without a name.
    pub fn file_count(&self) -> usize {
        self.read().nodes.len()
    }

    /// Returns the files that are held, with the number of holds.
    pub fn held(&self) -> Vec<(InodeNumber, u64)> {
        let state = self.read();
        let held = state.nodes.iter().filter(|(_, node)| node.holds > 0);
        held.map(|(&inode, node)| (inode, node.holds)).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, FsState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, FsState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change, unless changes are refused.
    fn change<T>(&self, change: impl FnOnce(&mut FsState, Timestamp) -> Result<T>) -> Result<T> {
        let mut state = self.write();
        if let Some(kind) = state.refusal {
            return Err(kind.into());
        }
        let now = (state.clock)();
        change(&mut state, now)
    }

    /// Changes the contents of a regular file, with the number of blocks that it may still
    /// allocate.
    fn change_contents<T>(
        &self,
        inode: InodeNumber,
        check: impl FnOnce(&Node) -> Result<()>,
        change: impl FnOnce(&mut blocks::Blocks, u64) -> Result<T>,
    ) -> Result<T> {
        self.change(|state, now| {
            let room = state.limits.blocks.saturating_sub(state.used_blocks);
            let node = state.node_mut(inode)?;
            node.blocks()?;
            check(node)?;
            let before = node.blocks()?.allocated();
            let result = change(node.blocks_mut()?, room)?;
            let after = node.blocks()?.allocated();
            node.touch(now);
            state.used_blocks = state.used_blocks - before + after;
            Ok(result)
        })
    }
}

impl FsState {
    fn node(&self, inode: InodeNumber) -> Result<&Node> {
        let node = self.nodes.get(&inode);
        node.ok_or_else(|| Error::from(ErrorKind::NotFound).in_inode(inode))
    }

    fn node_mut(&mut self, inode: InodeNumber) -> Result<&mut Node> {
        let node = self.nodes.get_mut(&inode);
        node.ok_or_else(|| Error::from(ErrorKind::NotFound).in_inode(inode))
    }

    fn drop_if_unlinked(&mut self, inode: InodeNumber) {
        let is_gone = |node: &&Node| node.metadata.links == 0 && node.holds == 0;
        if let Some(node) = self.nodes.get(&inode).filter(is_gone) {
            self.used_blocks -= node.blocks().map_or(0, blocks::Blocks::allocated);
            self.nodes.remove(&inode);
            self.free.insert(inode);
        }
    }
}

impl FsRead for WritableMemoryFs {
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
        let state = self.read();
        let directory = state.node(dir)?.directory()?;
        match name {
            b"." => Ok(dir),
            b".." => Ok(directory.parent),
            name if name.len() > NAME_MAX => Err(ErrorKind::NameTooLong.into()),
            name => directory.find(name).ok_or(ErrorKind::NotFound.into()),
        }
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        Ok(self.read().node(inode)?.metadata())
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.read().node(inode)?.blocks()?.read_at(offset, buf))
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let state = self.read();
        let directory = state.node(dir)?.directory()?;
        let dots = [(1, &b"."[..], dir), (2, &b".."[..], directory.parent)];
        let dots = dots.into_iter().filter(|(number, ..)| *number > cookie);
        let entry = |(cookie, name, inode): (u64, &[u8], InodeNumber)| {
            Ok(DirEntry {
                name: name.to_vec(),
                inode,
                file_type: names::file_type(&state, inode),
                cookie,
            })
        };
        let entries = dots.chain(directory.behind(cookie)).map(entry);
        let entries: Vec<Result<DirEntry>> = entries.collect();
        Ok(Box::new(entries.into_iter()))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        match &self.read().node(inode)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(ErrorKind::Invalid.into()),
        }
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.read().node(inode)?.xattrs.get(name).cloned())
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        Ok(self.read().node(inode)?.xattrs.keys().cloned().collect())
    }

    fn statistics(&self) -> Result<Statistics> {
        let state = self.read();
        let free = state.limits.blocks.saturating_sub(state.used_blocks);
        let files = state.nodes.len() as u64;
        Ok(Statistics {
            block_size: BLOCK_BYTES.try_into().unwrap(),
            allocation_size: BLOCK_BYTES.try_into().unwrap(),
            blocks: state.limits.blocks,
            blocks_free: free,
            blocks_available: free,
            inodes: state.limits.inodes,
            inodes_free: state.limits.inodes.saturating_sub(files),
            name_max: NAME_MAX.try_into().unwrap(),
        })
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let extents = self.read().node(inode)?.blocks()?.extents(offset);
        Ok(Box::new(extents.into_iter().map(Ok)))
    }
}

impl FsWrite for WritableMemoryFs {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        self.change(|state, now| state.create(dir, name, kind, attributes, now))
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        self.change(|state, now| state.create_unnamed(dir, attributes, now))
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.change(|state, now| state.link(inode, dir, name, now))
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.change(|state, now| state.unlink(dir, name, now))
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.change(|state, now| state.rmdir(dir, name, now))
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.change(|state, now| state.rename(dir, name, to_dir, to_name, mode, now))
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        let check = |node: &Node| {
            let appends = offset == node.blocks()?.size_bytes;
            let flags = node.metadata.flags;
            if flags.immutable || (flags.append_only && !appends) {
                return Err(node.error(ErrorKind::NotPermitted));
            }
            Ok(())
        };
        self.write().write_count += 1;
        self.change_contents(inode, check, |blocks, room| {
            blocks.write_at(offset, data, room)
        })
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        self.change_contents(inode, Node::check_not_fixed, |blocks, _| {
            blocks.set_len(size_bytes)
        })
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        let check = |node: &Node| {
            let keeps = matches!(what, Fallocate::Allocate | Fallocate::AllocateKeepSize);
            if node.metadata.flags.immutable || (node.metadata.flags.append_only && !keeps) {
                return Err(node.error(ErrorKind::NotPermitted));
            }
            Ok(())
        };
        self.change_contents(inode, check, |blocks, room| {
            blocks.fallocate(offset, len_bytes, what, room)
        })
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        self.change(|state, now| state.node_mut(inode)?.set_metadata(change, now))
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.change(|state, now| {
            let node = state.node_mut(inode)?;
            node.set_xattr(name, value, how)?;
            node.metadata.changed = now;
            Ok(())
        })
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.change(|state, now| {
            let node = state.node_mut(inode)?;
            node.remove_xattr(name)?;
            node.metadata.changed = now;
            Ok(())
        })
    }

    fn hold(&self, inode: InodeNumber) {
        if let Ok(node) = self.write().node_mut(inode) {
            node.holds += 1;
        }
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        let mut state = self.write();
        if let Ok(node) = state.node_mut(inode) {
            node.holds = node.holds.saturating_sub(1);
        }
        state.drop_if_unlinked(inode);
        Ok(())
    }

    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        self.change(|state, _| {
            state.node(inode)?;
            state.synced.push(Synced::File(inode, what));
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        self.change(|state, _| {
            state.synced.push(Synced::All);
            Ok(())
        })
    }

    fn close(&self) -> Result<()> {
        let mut state = self.write();
        let held: Vec<_> = state.nodes.keys().copied().collect();
        for inode in held {
            state.node_mut(inode)?.holds = 0;
            state.drop_if_unlinked(inode);
        }
        state.refusal = Some(ErrorKind::ReadOnly);
        state.synced.push(Synced::Closed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
