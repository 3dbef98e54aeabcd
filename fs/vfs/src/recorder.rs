//! What is changed in a filesystem, written down as it happens.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{
    DirEntries, Fallocate, FileAttributes, FileExtents, FileType, FsRead, FsWrite, Identity,
    InodeNumber, Metadata, NewAttributes, NewKind, Remains, RenameMode, Result, SetMetadata,
    SetXattr, Statistics, SyncFile,
};

/// What happened to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where it was when it happened first.
    pub path: Vec<u8>,
    /// What it was, each thing once, in order.
    pub what: Vec<What>,
}

/// One thing that happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It is new; that says all there is to say of it.
    Created(FileType),
    /// This name of it is gone.
    Removed,
    /// It has this name now.
    RenamedTo(Vec<u8>),
    /// It has another name, this one.
    LinkedAs(Vec<u8>),
    /// Its contents, or its size.
    Contents,
    /// Its permissions.
    Mode,
    /// Its owner or group.
    Owner,
    /// Its times were set.
    Times,
    /// Its flags, as of chattr(1).
    Flags,
    /// An extended attribute, or an ACL.
    Xattrs,
}

/// A filesystem that passes everything on and writes down what changed: for dry runs.
///
/// It remembers every name that was looked up or listed through it, to tell paths, so it is for one
/// command and not for a mount.
pub struct Recorder {
    fs: Arc<dyn FsWrite>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A name of each file that was come by.
    names: HashMap<InodeNumber, (InodeNumber, Vec<u8>)>,
    changes: Vec<Change>,
    /// The change of each file that has one.
    by_inode: HashMap<InodeNumber, usize>,
}

impl Recorder {
    /// Writes down what is changed through it from now on.
    pub fn new(fs: Arc<dyn FsWrite>) -> Self {
        Self {
            fs,
            state: Mutex::default(),
        }
    }

    /// What was changed, in the order in which it began.
    pub fn changes(&self) -> Vec<Change> {
        let state = self.lock();
        let real = state
            .changes
            .iter()
            .filter(|change| !change.what.is_empty());
        real.cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, inode: InodeNumber, what: What) {
        self.lock().note(inode, what);
    }
}

impl State {
    fn name(&mut self, dir: InodeNumber, name: &[u8], inode: InodeNumber) {
        if name != b"." && name != b".." {
            self.names.insert(inode, (dir, name.to_vec()));
        }
    }

    /// The path of a file by the name that it was found by.
    fn path(&self, inode: InodeNumber) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = inode;
        let mut len = 0;
        // No path is longer than this, even in a filesystem that contains itself.
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

    fn note(&mut self, inode: InodeNumber, what: What) {
        let known = self.by_inode.get(&inode).copied();
        let index = known.unwrap_or_else(|| {
            let path = self.path(inode);
            self.begin(inode, path)
        });
        let Some(change) = self.changes.get_mut(index) else {
            return;
        };
        let says_all = matches!(change.what.first(), Some(What::Created(_)))
            && !matches!(what, What::LinkedAs(_));
        if !says_all && !change.what.contains(&what) {
            change.what.push(what);
        }
    }

    fn begin(&mut self, inode: InodeNumber, path: Vec<u8>) -> usize {
        let index = self.changes.len();
        self.changes.push(Change {
            path,
            what: Vec::new(),
        });
        self.by_inode.insert(inode, index);
        index
    }

    fn created(&mut self, dir: InodeNumber, name: &[u8], inode: InodeNumber, kind: FileType) {
        self.name(dir, name, inode);
        // A number that another file had before.
        self.by_inode.remove(&inode);
        self.note(inode, What::Created(kind));
    }

    /// A name went away. A file that was made only now was never there.
    fn removed(&mut self, dir: InodeNumber, name: &[u8], inode: Option<InodeNumber>) {
        let path = self.path_in(dir, name);
        let index = inode.and_then(|inode| self.by_inode.get(&inode));
        let change = index.and_then(|&index| self.changes.get_mut(index));
        if let Some(change) = change
            && change.path == path
            && matches!(change.what.as_slice(), [What::Created(_)])
        {
            change.what.clear();
            return;
        }
        self.changes.push(Change {
            path,
            what: vec![What::Removed],
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
            && matches!(change.what.as_slice(), [What::Created(_)])
            && change.path == created_at
        {
            change.path = to;
            return;
        }
        if index.is_none() {
            self.begin(inode, created_at);
        }
        self.note(inode, What::RenamedTo(to));
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
            state.note(inode, What::LinkedAs(path));
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
        self.note(inode, What::Contents);
        Ok(written)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        self.fs.set_len(inode, size_bytes)?;
        self.note(inode, What::Contents);
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
        self.note(inode, What::Contents);
        Ok(())
    }

    fn set_file_attributes(&self, inode: InodeNumber, wanted: FileAttributes) -> Result<()> {
        let before = self.fs.file_attributes(inode)?;
        self.fs.set_file_attributes(inode, wanted)?;
        if self.fs.file_attributes(inode)? != before {
            self.note(inode, What::Flags);
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
            (differs(mode, before.permissions.into()), What::Mode),
            (owner, What::Owner),
            (times.is_some(), What::Times),
            (flags, What::Flags),
        ];
        let mut state = self.lock();
        for (_, what) in happened.into_iter().filter(|(happened, _)| *happened) {
            state.note(inode, what);
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
        self.note(inode, What::Xattrs);
        Ok(())
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.remove_xattr(inode, name)?;
        self.note(inode, What::Xattrs);
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
                change.what
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
    fn tells_what_happened_to_each_file_once() {
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
        // Written aside and put in place, as programs do it.
        add(&fs, "/a/temporary", NewKind::Regular);
        let (dir, _) = resolve_parent(&fs, "/a/g").unwrap();
        fs.rename(dir, b"temporary", dir, b"g", RenameMode::Replace)
            .unwrap();
        edit::remove_tree(&fs, b"/a/b", &mut |_| {}).unwrap();
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
