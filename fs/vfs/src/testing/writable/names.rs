//! Operations on names: creation, renaming, removal.

use super::node::{Body, Node, begin};
use super::{FIRST_FILE, FsState, MAX_LINKS, NAME_MAX};
use crate::{
    Device, ErrorKind, FileType, InodeNumber, NewAttributes, NewKind, RenameMode, Result, Timestamp,
};

/// A name in a directory, and the file that it refers to.
struct NamedEntry<'n> {
    dir: InodeNumber,
    name: &'n [u8],
    inode: InodeNumber,
}

impl FsState {
    fn find(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<InodeNumber>> {
        check_length(name)?;
        Ok(self.node(dir)?.directory()?.find(name))
    }

    /// Fails if a directory does not accept new names.
    fn check_takes_names(&self, dir: InodeNumber) -> Result<()> {
        let node = self.node(dir)?;
        node.directory()?;
        if node.metadata.links == 0 {
            return Err(node.error(ErrorKind::NotFound));
        }
        if node.metadata.flags.immutable {
            return Err(node.error(ErrorKind::NotPermitted));
        }
        Ok(())
    }

    fn check_free(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        check_possible(name)?;
        if is_dots(name) || self.find(dir, name)?.is_some() {
            return Err(self.node(dir)?.error(ErrorKind::Exists));
        }
        self.check_takes_names(dir)
    }

    /// Returns the file that a name refers to, if the name may be removed.
    fn taken_from<'n>(&self, dir: InodeNumber, name: &'n [u8]) -> Result<NamedEntry<'n>> {
        let inode = self.find(dir, name)?.ok_or(ErrorKind::NotFound)?;
        self.node(dir)?.check_not_fixed()?;
        self.node(inode)?.check_not_fixed()?;
        Ok(NamedEntry { dir, name, inode })
    }

    pub(super) fn create(
        &mut self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
        now: Timestamp,
    ) -> Result<InodeNumber> {
        self.check_free(dir, name)?;
        if let NewKind::Symlink(target) = kind {
            check_target(target)?;
        }
        if kind == NewKind::Directory {
            self.check_links(dir)?;
        }
        let inode = self.add(dir, kind, attributes, now)?;
        self.put(dir, name, inode, now);
        Ok(inode)
    }

    pub(super) fn create_unnamed(
        &mut self,
        dir: InodeNumber,
        attributes: &NewAttributes,
        now: Timestamp,
    ) -> Result<InodeNumber> {
        self.check_takes_names(dir)?;
        let inode = self.add(dir, NewKind::Regular, attributes, now)?;
        let node = self.node_mut(inode)?;
        node.metadata.links = 0;
        node.is_unnamed = true;
        node.holds = 1;
        Ok(inode)
    }

    /// Creates a file without a name.
    fn add(
        &mut self,
        dir: InodeNumber,
        kind: NewKind<'_>,
        attributes: &NewAttributes,
        now: Timestamp,
    ) -> Result<InodeNumber> {
        if self.nodes.len() as u64 >= self.limits.inodes {
            return Err(ErrorKind::NoSpace.into());
        }
        let inode = self.free_number();
        let (body, file_type) = begin(kind, dir);
        let mut node = Node::new(inode, body, file_type, now);
        let metadata = &mut node.metadata;
        (metadata.uid, metadata.gid) = (attributes.uid, attributes.gid);
        metadata.device = device(kind);
        node.inherit(self.node(dir)?, attributes.permissions, attributes.umask)?;
        self.generation += 1;
        node.metadata.generation = self.generation;
        self.nodes.insert(inode, node);
        Ok(inode)
    }

    /// Returns the lowest free inode number: numbers are reused as soon as possible, as on a disk.
    fn free_number(&mut self) -> InodeNumber {
        let last = self.nodes.keys().next_back();
        let next = last.map_or(FIRST_FILE, |last| FIRST_FILE.max(last.0 + 1));
        self.free.pop_first().unwrap_or(InodeNumber(next))
    }

    /// Adds a free name. For a subdirectory, the link count of the directory grows.
    fn put(&mut self, dir: InodeNumber, name: &[u8], inode: InodeNumber, now: Timestamp) {
        let is_dir = self.adopt(inode, dir);
        let parent = self.nodes.get_mut(&dir).unwrap();
        parent.directory_mut().insert(name, inode);
        parent.metadata.links += u32::from(is_dir);
        parent.touch(now);
    }

    /// Removes a name, and does not change the file.
    fn take(&mut self, named: &NamedEntry<'_>, now: Timestamp) {
        let is_dir = self.nodes[&named.inode].is_dir();
        let parent = self.nodes.get_mut(&named.dir).unwrap();
        parent.directory_mut().remove(named.name);
        parent.metadata.links -= u32::from(is_dir);
        parent.touch(now);
    }

    /// Records the parent of a directory. Returns false for other files.
    fn adopt(&mut self, inode: InodeNumber, dir: InodeNumber) -> bool {
        let node = self.nodes.get_mut(&inode).unwrap();
        if let Body::Directory(directory) = &mut node.body {
            directory.parent = dir;
        }
        node.is_dir()
    }

    fn check_links(&self, inode: InodeNumber) -> Result<()> {
        let node = self.node(inode)?;
        if node.metadata.links >= MAX_LINKS {
            return Err(node.error(ErrorKind::TooManyNames));
        }
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        inode: InodeNumber,
        dir: InodeNumber,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        self.check_free(dir, name)?;
        let node = self.node(inode)?;
        if node.is_dir() {
            return Err(node.error(ErrorKind::NotPermitted));
        }
        node.check_not_fixed()?;
        self.check_links(inode)?;
        let node = self.node_mut(inode)?;
        if node.metadata.links == 0 && !(node.is_unnamed && node.holds > 0) {
            return Err(node.error(ErrorKind::NotFound));
        }
        node.is_unnamed = false;
        node.metadata.links += 1;
        node.metadata.changed = now;
        self.put(dir, name, inode, now);
        Ok(())
    }

    pub(super) fn unlink(&mut self, dir: InodeNumber, name: &[u8], now: Timestamp) -> Result<()> {
        self.node(dir)?.directory()?;
        if is_dots(name) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let named = self.taken_from(dir, name)?;
        if self.node(named.inode)?.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.take(&named, now);
        self.lose_name(named.inode, now);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, dir: InodeNumber, name: &[u8], now: Timestamp) -> Result<()> {
        self.node(dir)?.directory()?;
        match name {
            b"." => return Err(ErrorKind::Invalid.into()),
            b".." => return Err(ErrorKind::NotEmpty.into()),
            _ => {}
        }
        let named = self.taken_from(dir, name)?;
        if !self.node(named.inode)?.directory()?.is_empty() {
            return Err(ErrorKind::NotEmpty.into());
        }
        self.take(&named, now);
        self.lose_name(named.inode, now);
        Ok(())
    }

    /// Decrements the link count of a file, or sets that of a directory to zero. A file without
    /// names and holds is freed.
    fn lose_name(&mut self, inode: InodeNumber, now: Timestamp) {
        let node = self.nodes.get_mut(&inode).unwrap();
        node.metadata.links = if node.is_dir() {
            0
        } else {
            node.metadata.links - 1
        };
        node.metadata.changed = now;
        self.drop_if_unlinked(inode);
    }

    pub(super) fn rename(
        &mut self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<()> {
        check_possible(to_name)?;
        if is_dots(name) || is_dots(to_name) {
            return Err(ErrorKind::Invalid.into());
        }
        let from = self.find(dir, name)?.ok_or(ErrorKind::NotFound)?;
        let to = self.find(to_dir, to_name)?;
        match (mode, to) {
            (RenameMode::NoReplace | RenameMode::NoReplaceWhiteout, Some(_)) => {
                return Err(ErrorKind::Exists.into());
            }
            (RenameMode::Exchange, None) => return Err(ErrorKind::NotFound.into()),
            _ => {}
        }
        self.check_no_loop(from, to_dir)?;
        if mode == RenameMode::Exchange {
            self.check_no_loop(to.unwrap_or(from), dir)?;
        } else if to.is_some_and(|to| self.check_no_loop(to, dir).is_err()) {
            return Err(ErrorKind::NotEmpty.into());
        }
        let from = self.taken_from(dir, name)?;
        self.check_takes_names(to_dir)?;
        if to == Some(from.inode) {
            return Ok(());
        }
        let to = match to {
            Some(_) => Some(self.taken_from(to_dir, to_name)?),
            None => None,
        };
        match (mode, to) {
            (RenameMode::Exchange, Some(to)) => self.exchange(&from, &to, now),
            (_, Some(to)) => {
                self.check_replaced(&from, &to)?;
                self.move_over(&from, to_dir, to_name, Some(&to), mode, now)
            }
            (_, None) => self.move_over(&from, to_dir, to_name, None, mode, now),
        }
    }

    /// Fails if a directory would be moved into itself, or below.
    fn check_no_loop(&self, inode: InodeNumber, mut dir: InodeNumber) -> Result<()> {
        loop {
            if dir == inode {
                return Err(ErrorKind::Invalid.into());
            }
            let parent = self.node(dir)?.directory()?.parent;
            if parent == dir {
                return Ok(());
            }
            dir = parent;
        }
    }

    fn check_replaced(&self, from: &NamedEntry<'_>, to: &NamedEntry<'_>) -> Result<()> {
        let target = self.node(to.inode)?;
        match (self.node(from.inode)?.is_dir(), &target.body) {
            (true, Body::Directory(directory)) if !directory.is_empty() => {
                Err(target.error(ErrorKind::NotEmpty))
            }
            (false, Body::Directory(_)) => Err(target.error(ErrorKind::IsADirectory)),
            (true, body) if !matches!(body, Body::Directory(_)) => {
                Err(target.error(ErrorKind::NotADirectory))
            }
            _ => Ok(()),
        }
    }

    fn move_over(
        &mut self,
        from: &NamedEntry<'_>,
        to_dir: InodeNumber,
        to_name: &[u8],
        replaced: Option<&NamedEntry<'_>>,
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<()> {
        let is_dir = self.node(from.inode)?.is_dir();
        if is_dir && replaced.is_none() && from.dir != to_dir {
            self.check_links(to_dir)?;
        }
        let leaves = matches!(mode, RenameMode::Whiteout | RenameMode::NoReplaceWhiteout);
        let whiteout = leaves.then(|| self.whiteout(from.dir, now)).transpose()?;
        if let Some(replaced) = replaced {
            self.take(replaced, now);
            self.lose_name(replaced.inode, now);
        }
        self.take(from, now);
        self.put(to_dir, to_name, from.inode, now);
        self.node_mut(from.inode)?.metadata.changed = now;
        if let Some(whiteout) = whiteout {
            self.put(from.dir, from.name, whiteout, now);
        }
        Ok(())
    }

    fn whiteout(&mut self, dir: InodeNumber, now: Timestamp) -> Result<InodeNumber> {
        let kind = NewKind::CharacterDevice(Device::default());
        self.add(dir, kind, &NewAttributes::for_root(0), now)
    }

    fn exchange(&mut self, a: &NamedEntry<'_>, b: &NamedEntry<'_>, now: Timestamp) -> Result<()> {
        for (one, dir) in [(a, b.dir), (b, a.dir)] {
            let other = if one.inode == a.inode { b } else { a };
            let gains = self.node(one.inode)?.is_dir() && !self.node(other.inode)?.is_dir();
            if gains && a.dir != b.dir {
                self.check_links(dir)?;
            }
        }
        self.take(a, now);
        self.take(b, now);
        self.put(a.dir, a.name, b.inode, now);
        self.put(b.dir, b.name, a.inode, now);
        for inode in [a.inode, b.inode] {
            self.node_mut(inode)?.metadata.changed = now;
        }
        Ok(())
    }
}

fn device(kind: NewKind<'_>) -> Option<Device> {
    match kind {
        NewKind::CharacterDevice(device) | NewKind::BlockDevice(device) => Some(device),
        _ => None,
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

fn check_length(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(ErrorKind::NameTooLong.into());
    }
    Ok(())
}

fn check_possible(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.iter().any(|&byte| matches!(byte, 0 | b'/')) {
        return Err(ErrorKind::Invalid.into());
    }
    check_length(name)
}

fn check_target(target: &[u8]) -> Result<()> {
    match target.len() {
        0 => Err(ErrorKind::Invalid.into()),
        1..4096 => Ok(()),
        _ => Err(ErrorKind::NameTooLong.into()),
    }
}

/// Returns the type that a directory entry stores.
pub(super) fn file_type(state: &FsState, inode: InodeNumber) -> Option<FileType> {
    state.nodes.get(&inode).map(|node| node.metadata.file_type)
}
