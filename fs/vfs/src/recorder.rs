//! A record of the changes in a filesystem.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{
    DirEntries, Fallocate, FileAttributes, FileExtents, FileType, FsRead, FsWrite, Identity,
    InodeNumber, Metadata, NewAttributes, NewKind, Remains, RenameMode, Result, SetMetadata,
    SetXattr, Statistics, SyncFile,
};

/// The changes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path of the file at its first change.
    pub path: Vec<u8>,
    /// The kinds of changes, each once, in order.
    pub kinds: Vec<ChangeKind>,
}

/// A kind of change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// The file is new; further changes of it are not recorded.
    Created(FileType),
    /// This name of the file was removed.
    Removed,
    /// The file was renamed to this name.
    RenamedTo(Vec<u8>),
    /// The file got this further name.
    LinkedAs(Vec<u8>),
    /// The contents or the size of the file changed.
    Contents,
    /// The permissions of the file changed.
    Mode,
    /// The owner or group of the file changed.
    Owner,
    /// The times of the file were set.
    Times,
    /// The chattr(1) flags of the file changed.
    Flags,
    /// An extended attribute or an ACL changed.
    Xattrs,
}

/// A filesystem that forwards all calls and records the changes, for dry runs.
///
/// It remembers every name that was looked up or listed through it, to report paths. So it is meant
/// for a single command, not for a mount.
pub struct Recorder {
    fs: Arc<dyn FsWrite>,
    state: Mutex<RecordedChanges>,
}

#[derive(Default)]
struct RecordedChanges {
    /// A name of each file that was seen.
    names: HashMap<InodeNumber, (InodeNumber, Vec<u8>)>,
    changes: Vec<Change>,
    /// The index of the change of each changed file.
    by_inode: HashMap<InodeNumber, usize>,
}

impl Recorder {
    /// Returns a recorder of the changes that are made through it.
    pub fn new(fs: Arc<dyn FsWrite>) -> Self {
        Self {
            fs,
            state: Mutex::default(),
        }
    }

    /// Returns the changes, in the order in which they began.
    pub fn changes(&self) -> Vec<Change> {
        let state = self.lock();
        let real = state
            .changes
            .iter()
            .filter(|change| !change.kinds.is_empty());
        real.cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, RecordedChanges> {
        // The state is consistent between any two statements, even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, inode: InodeNumber, kind: ChangeKind) {
        self.lock().note(inode, kind);
    }
}

impl RecordedChanges {
    fn name(&mut self, dir: InodeNumber, name: &[u8], inode: InodeNumber) {
        if name != b"." && name != b".." {
            self.names.insert(inode, (dir, name.to_vec()));
        }
    }

    /// Returns the path of a file, from the name by which it was found.
    fn path(&self, inode: InodeNumber) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = inode;
        let mut len = 0;
        // The loop is bounded because a corrupt filesystem can contain itself.
        while let Some((dir, name)) = self.names.get(&at)
            && len < crate::WALK_PATH_MAX_BYTES
        {
            len = name.len().saturating_add(1).saturating_add(len);
            names.push(name.as_slice());
            at = *dir;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        path
    }

    fn path_in(&self, dir: InodeNumber, name: &[u8]) -> Vec<u8> {
        let mut path = self.path(dir);
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    fn note(&mut self, inode: InodeNumber, kind: ChangeKind) {
        let known = self.by_inode.get(&inode).copied();
        let index = known.unwrap_or_else(|| {
            let path = self.path(inode);
            self.begin(inode, path)
        });
        let Some(change) = self.changes.get_mut(index) else {
            return;
        };
        let is_implied = matches!(change.kinds.first(), Some(ChangeKind::Created(_)))
            && !matches!(kind, ChangeKind::LinkedAs(_));
        if !is_implied && !change.kinds.contains(&kind) {
            change.kinds.push(kind);
        }
    }

    fn begin(&mut self, inode: InodeNumber, path: Vec<u8>) -> usize {
        let index = self.changes.len();
        self.changes.push(Change {
            path,
            kinds: Vec::new(),
        });
        self.by_inode.insert(inode, index);
        index
    }

    fn created(&mut self, dir: InodeNumber, name: &[u8], inode: InodeNumber, kind: FileType) {
        self.name(dir, name, inode);
        // The number may have belonged to another file before.
        self.by_inode.remove(&inode);
        self.note(inode, ChangeKind::Created(kind));
    }

    /// Records the removal of a name. A file that was created since the start leaves no trace.
    fn removed(&mut self, dir: InodeNumber, name: &[u8], inode: Option<InodeNumber>) {
        let path = self.path_in(dir, name);
        let index = inode.and_then(|inode| self.by_inode.get(&inode));
        let change = index.and_then(|&index| self.changes.get_mut(index));
        if let Some(change) = change
            && change.path == path
            && matches!(change.kinds.as_slice(), [ChangeKind::Created(_)])
        {
            change.kinds.clear();
            return;
        }
        self.changes.push(Change {
            path,
            kinds: vec![ChangeKind::Removed],
        });
    }

    fn renamed(
        &mut self,
        inode: InodeNumber,
        (dir, name): (InodeNumber, &[u8]),
        (to_dir, to_name): (InodeNumber, &[u8]),
    ) {
        let to = self.path_in(to_dir, to_name);
        let created_at = self.path_in(dir, name);
        let index = self.by_inode.get(&inode).copied();
        self.name(to_dir, to_name, inode);
        if let Some(change) = index.and_then(|index| self.changes.get_mut(index))
            && matches!(change.kinds.as_slice(), [ChangeKind::Created(_)])
            && change.path == created_at
        {
            change.path = to;
            return;
        }
        if index.is_none() {
            self.begin(inode, created_at);
        }
        self.note(inode, ChangeKind::RenamedTo(to));
    }
}

const fn file_type(kind: NewKind<'_>) -> FileType {
    match kind {
        NewKind::Regular => FileType::Regular,
        NewKind::Directory => FileType::Directory,
        NewKind::Symlink(_) => FileType::Symlink,
        NewKind::CharacterDevice(_) => FileType::CharacterDevice,
        NewKind::BlockDevice(_) => FileType::BlockDevice,
        NewKind::Fifo => FileType::Fifo,
        NewKind::Socket => FileType::Socket,
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("fs", &self.fs)
            .finish_non_exhaustive()
    }
}

impl FsRead for Recorder {
    fn identity(&self) -> Identity {
        self.fs.identity()
    }

    fn root(&self) -> InodeNumber {
        self.fs.root()
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let inode = self.fs.lookup(dir, name)?;
        self.lock().name(dir, name, inode);
        Ok(inode)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.fs.metadata(inode)
    }

    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        self.fs.file_attributes(inode)
    }

    fn time_granularity(&self) -> Duration {
        self.fs.time_granularity()
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.fs.read_at(inode, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let entries = self.fs.read_dir(dir, cookie)?;
        Ok(Box::new(entries.inspect(move |entry| {
            if let Ok(entry) = entry {
                self.lock().name(dir, &entry.name, entry.inode);
            }
        })))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.fs.read_link(inode)
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.fs.xattr(inode, name)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.fs.list_xattrs(inode)
    }

    fn statistics(&self) -> Result<Statistics> {
        self.fs.statistics()
    }

    fn mount_of(&self, inode: InodeNumber) -> usize {
        self.fs.mount_of(inode)
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        self.fs.extents_of(inode, offset)
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        self.fs.will_need_metadata(inodes);
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        self.fs.will_need(inode, offset, len_bytes);
    }
}

impl FsWrite for Recorder {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        let inode = self.fs.create(dir, name, kind, attributes)?;
        self.lock().created(dir, name, inode, file_type(kind));
        Ok(inode)
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        self.fs.create_unnamed(dir, attributes)
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.link(inode, dir, name)?;
        let mut state = self.lock();
        if state.names.contains_key(&inode) {
            let path = state.path_in(dir, name);
            state.note(inode, ChangeKind::LinkedAs(path));
        } else {
            state.created(dir, name, inode, FileType::Regular);
        }
        Ok(())
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let inode = self.fs.lookup(dir, name).ok();
        self.fs.unlink(dir, name)?;
        self.lock().removed(dir, name, inode);
        Ok(())
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let inode = self.fs.lookup(dir, name).ok();
        self.fs.rmdir(dir, name)?;
        self.lock().removed(dir, name, inode);
        Ok(())
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let inode = self.fs.lookup(dir, name)?;
        let replaced = self.fs.lookup(to_dir, to_name).ok();
        self.fs.rename(dir, name, to_dir, to_name, mode)?;
        let mut state = self.lock();
        match replaced.filter(|&replaced| replaced != inode) {
            Some(other) if mode == RenameMode::Exchange => {
                state.renamed(other, (to_dir, to_name), (dir, name));
            }
            Some(other) => state.removed(to_dir, to_name, Some(other)),
            None => {}
        }
        state.renamed(inode, (dir, name), (to_dir, to_name));
        Ok(())
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        let written = self.fs.write_at(inode, offset, data)?;
        self.note(inode, ChangeKind::Contents);
        Ok(written)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        self.fs.set_len(inode, size_bytes)?;
        self.note(inode, ChangeKind::Contents);
        Ok(())
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        self.fs.fallocate(inode, offset, len_bytes, what)?;
        self.note(inode, ChangeKind::Contents);
        Ok(())
    }

    fn set_file_attributes(&self, inode: InodeNumber, wanted: FileAttributes) -> Result<()> {
        let before = self.fs.file_attributes(inode)?;
        self.fs.set_file_attributes(inode, wanted)?;
        if self.fs.file_attributes(inode)? != before {
            self.note(inode, ChangeKind::Flags);
        }
        Ok(())
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        let before = self.fs.metadata(inode)?;
        self.fs.set_metadata(inode, change)?;
        let differs = |wanted: Option<u32>, is: u32| wanted.is_some_and(|wanted| wanted != is);
        let mode = change.permissions.map(u32::from);
        let owner = differs(change.uid, before.uid) || differs(change.gid, before.gid);
        let times = change.accessed.or(change.modified).or(change.changed);
        let flags = change.flags.is_some_and(|flags| flags != before.flags);
        let happened = [
            (differs(mode, before.permissions.into()), ChangeKind::Mode),
            (owner, ChangeKind::Owner),
            (times.is_some(), ChangeKind::Times),
            (flags, ChangeKind::Flags),
        ];
        let mut state = self.lock();
        for (_, kind) in happened.into_iter().filter(|(happened, _)| *happened) {
            state.note(inode, kind);
        }
        Ok(())
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.fs.set_xattr(inode, name, value, how)?;
        self.note(inode, ChangeKind::Xattrs);
        Ok(())
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.remove_xattr(inode, name)?;
        self.note(inode, ChangeKind::Xattrs);
        Ok(())
    }

    fn hold(&self, inode: InodeNumber) {
        self.fs.hold(inode);
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        self.fs.release(inode)
    }

    fn set_uuid(&self, inode: InodeNumber, uuid: [u8; 16]) -> Result<()> {
        self.fs.set_uuid(inode, uuid)
    }

    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        self.fs.sync_file(inode, what)
    }

    fn sync(&self) -> Result<()> {
        self.fs.sync()
    }

    fn close(&self) -> Result<()> {
        self.fs.close()
    }

    fn is_in_parts(&self) -> bool {
        self.fs.is_in_parts()
    }

    fn abandon(&self) -> Result<Remains> {
        self.fs.abandon()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::testing::WritableMemoryFs;
    use crate::{edit, resolve, resolve_parent};

    fn add(fs: &dyn FsWrite, path: &str, kind: NewKind<'_>) -> InodeNumber {
        let (dir, name) = resolve_parent(fs, path).unwrap();
        fs.create(dir, &name, kind, &NewAttributes::for_root(0o644))
            .unwrap()
    }

    fn told(recorder: &Recorder) -> Vec<String> {
        let text = |change: &Change| {
            format!(
                "{}: {:?}",
                String::from_utf8_lossy(&change.path),
                change.kinds
            )
        };
        recorder.changes().iter().map(text).collect()
    }

    fn tree() -> Recorder {
        let fs = WritableMemoryFs::new();
        add(&fs, "/a", NewKind::Directory);
        add(&fs, "/a/b", NewKind::Directory);
        add(&fs, "/a/b/f", NewKind::Regular);
        add(&fs, "/a/g", NewKind::Regular);
        Recorder::new(Arc::new(fs))
    }

    #[test]
    fn reports_each_change_of_a_file_once() {
        let fs = tree();
        let f = resolve(&fs, "/a/b/f", crate::Follow::All).unwrap();
        fs.write_at(f, 0, b"x").unwrap();
        fs.write_at(f, 1, b"y").unwrap();
        let change = SetMetadata {
            permissions: Some(0o600),
            uid: Some(0),
            ..SetMetadata::default()
        };
        fs.set_metadata(f, &change).unwrap();
        let new = add(&fs, "/a/new", NewKind::Regular);
        fs.write_at(new, 0, b"z").unwrap();
        fs.set_xattr(new, b"user.x", b"y", SetXattr::Any).unwrap();
        let g = resolve_parent(&fs, "/a/g").unwrap();
        let (dir, name) = (g.0, g.1.as_slice());
        fs.rename(dir, name, dir, b"h", RenameMode::Replace)
            .unwrap();
        assert_eq!(
            told(&fs),
            [
                "/a/b/f: [Contents, Mode]",
                "/a/new: [Created(Regular)]",
                &format!("/a/g: [RenamedTo({:?})]", b"/a/h"),
            ]
        );
    }

    #[test]
    fn what_was_made_and_removed_was_never_there() {
        let fs = tree();
        add(&fs, "/a/new", NewKind::Regular);
        edit::remove(&fs, b"/a/new").unwrap();
        // The way in which programs replace a file: write a temporary one and rename it.
        add(&fs, "/a/temporary", NewKind::Regular);
        let (dir, _) = resolve_parent(&fs, "/a/g").unwrap();
        fs.rename(dir, b"temporary", dir, b"g", RenameMode::Replace)
            .unwrap();
        edit::remove_tree(&fs, b"/a/b", &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(
            told(&fs),
            [
                "/a/g: [Created(Regular)]",
                "/a/g: [Removed]",
                "/a/b/f: [Removed]",
                "/a/b: [Removed]",
            ]
        );
    }
}
