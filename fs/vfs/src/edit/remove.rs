//! A file, or a directory with all that is in it, goes away.

use std::collections::HashSet;

use crate::walk::check_name;
use crate::{
    DirEntry, Error, ErrorKind, FileType, FsWrite, InodeNumber, Result, WALK_PATH_MAX_BYTES,
    resolve_parent,
};

/// Names that are taken from a directory at once, so that memory does not grow with it.
const BATCH_LEN: usize = 1024;

/// From where on a directory keeps nothing but its place while what is in it goes away: programs
/// nest directories without a bound.
const DEEP: usize = 32;

/// What came of removing one name.
#[derive(Debug)]
pub enum Removed<'a> {
    /// A file that is no directory.
    File(&'a [u8]),
    /// A directory, with everything in it.
    Directory(&'a [u8]),
    /// It stays, and so do the directories that it is in; the error has the path.
    Failed(Error),
}

/// Removes what `path` names, unless it is a directory that is not empty. A symlink is removed
/// itself.
///
/// # Errors
/// As [`resolve_parent`], [`FsWrite::unlink`] and [`FsWrite::rmdir`].
pub fn remove(fs: &dyn FsWrite, path: &[u8]) -> Result<()> {
    let (dir, name) = resolve_parent(fs, path)?;
    let inode = fs.lookup(dir, &name);
    let metadata = inode.and_then(|inode| fs.metadata(inode));
    metadata
        .and_then(|metadata| {
            if metadata.is_dir() {
                fs.rmdir(dir, &name)
            } else {
                fs.unlink(dir, &name)
            }
        })
        .map_err(|error| error.in_path(path))
}

/// Removes what `path` names with everything below it, and tells `told` of each name as it goes.
/// No symlink is followed, so nothing outside of `path` is touched. After an error it goes on with
/// the next name, unless that is one which may have [done a part](crate::ErrorKind::is_halfway).
///
/// # Errors
/// What keeps it from beginning: as [`resolve_parent`], and `NotFound`.
pub fn remove_tree(fs: &dyn FsWrite, path: &[u8], told: &mut dyn FnMut(Removed<'_>)) -> Result<()> {
    let (dir, name) = resolve_parent(fs, path)?;
    let inode = fs.lookup(dir, &name).map_err(|error| error.in_path(path))?;
    let mut removal = Removal {
        fs,
        told,
        path: path.to_vec(),
        levels: Vec::new(),
        entered: HashSet::new(),
        ended: false,
    };
    removal.take(dir, name, inode, None);
    while let Some(entry) = removal.next() {
        if let Some(level) = removal.levels.last() {
            removal.take(level.inode, entry.name, entry.inode, entry.file_type);
        }
    }
    Ok(())
}

struct Removal<'a> {
    fs: &'a dyn FsWrite,
    told: &'a mut dyn FnMut(Removed<'_>),
    /// The path of what is looked at.
    path: Vec<u8>,
    levels: Vec<Level>,
    /// A directory with several names, of a broken filesystem, is entered once.
    entered: HashSet<InodeNumber>,
    /// An error was told that keeps everything else from being removed, too.
    ended: bool,
}

/// A directory that is being emptied.
struct Level {
    dir: InodeNumber,
    name: Vec<u8>,
    inode: InodeNumber,
    /// How much of the path leads to it.
    path_len: usize,
    batch: std::vec::IntoIter<DirEntry>,
    /// Where the next batch begins; `None` when there is none.
    cookie: Option<u64>,
    /// Where what is behind the name that was taken last begins.
    taken: u64,
    /// Something in it stays.
    keeps: bool,
}

impl Removal<'_> {
    /// Removes a name, or goes into the directory that it names.
    fn take(
        &mut self,
        dir: InodeNumber,
        name: Vec<u8>,
        inode: InodeNumber,
        file_type: Option<FileType>,
    ) {
        if !self.levels.is_empty() {
            if !self.path.ends_with(b"/") {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&name);
        }
        match self.try_take(dir, name, inode, file_type) {
            Ok(Some(level)) => {
                if self.levels.len() > DEEP
                    && let Some(above) = self.levels.last_mut()
                {
                    above.park();
                }
                self.levels.push(level);
            }
            Ok(None) => (self.told)(Removed::File(&self.path)),
            Err(error) => self.fail(error),
        }
    }

    fn try_take(
        &mut self,
        dir: InodeNumber,
        name: Vec<u8>,
        inode: InodeNumber,
        file_type: Option<FileType>,
    ) -> Result<Option<Level>> {
        check_name(&name)?;
        let file_type = match file_type {
            Some(file_type) => file_type,
            None => self.fs.metadata(inode)?.file_type,
        };
        if file_type != FileType::Directory {
            return self.fs.unlink(dir, &name).map(|()| None);
        }
        if self.path.len() > WALK_PATH_MAX_BYTES {
            let reason = "the path is longer than 512 KiB";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        if !self.entered.insert(inode) {
            let reason = "directory has several names, or contains itself";
            return Err(Error::new(ErrorKind::Corrupt, reason));
        }
        Ok(Some(Level {
            dir,
            name,
            inode,
            path_len: self.path.len(),
            batch: Vec::new().into_iter(),
            cookie: Some(0),
            taken: 0,
            keeps: false,
        }))
    }

    fn fail(&mut self, error: Error) {
        if let Some(level) = self.levels.last_mut() {
            level.keeps = true;
        }
        // A contradiction in one directory says nothing of the others.
        self.ended |= error.kind().is_halfway() && error.kind() != ErrorKind::Corrupt;
        (self.told)(Removed::Failed(error.in_path(&self.path)));
    }

    /// The next name of the innermost directory; directories that are through are removed on the
    /// way. `None` when all is done.
    fn next(&mut self) -> Option<DirEntry> {
        while !self.ended {
            let level = self.levels.last_mut()?;
            self.path.truncate(level.path_len);
            if let Some(entry) = level.batch.next() {
                level.taken = entry.cookie;
                return Some(entry);
            }
            match level.refill(self.fs) {
                Ok(true) => {}
                Ok(false) => self.leave(),
                Err(error) => {
                    level.cookie = None;
                    self.fail(error);
                }
            }
        }
        None
    }

    /// Removes the innermost directory, which is empty now.
    fn leave(&mut self) {
        let Some(level) = self.levels.pop() else {
            return;
        };
        if level.keeps {
            // That was told already; those above stay, too.
            if let Some(above) = self.levels.last_mut() {
                above.keeps = true;
            }
            return;
        }
        match self.fs.rmdir(level.dir, &level.name) {
            Ok(()) => (self.told)(Removed::Directory(&self.path)),
            Err(error) => self.fail(error),
        }
    }
}

impl Level {
    /// Lets go of the names that were read and not taken yet.
    fn park(&mut self) {
        if self.batch.len() > 0 {
            self.batch = Vec::new().into_iter();
            self.cookie = Some(self.taken);
        }
    }

    /// Takes the next names. Returns whether there were any.
    fn refill(&mut self, fs: &dyn FsWrite) -> Result<bool> {
        let Some(cookie) = self.cookie else {
            return Ok(false);
        };
        let mut batch = Vec::new();
        self.cookie = None;
        for entry in fs.read_dir(self.inode, cookie)? {
            let entry = entry?;
            let next = entry.cookie;
            if entry.name != b"." && entry.name != b".." {
                batch.push(entry);
            }
            if batch.len() >= BATCH_LEN {
                self.cookie = Some(next);
                break;
            }
        }
        let some = !batch.is_empty();
        self.batch = batch.into_iter();
        Ok(some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::WritableMemoryFs;
    use crate::{Follow, FsRead, NewAttributes, NewKind, SetMetadata, resolve};

    fn add(fs: &WritableMemoryFs, path: &str, kind: NewKind<'_>) -> InodeNumber {
        let (dir, name) = resolve_parent(fs, path).unwrap();
        fs.create(dir, &name, kind, &NewAttributes::for_root(0o755))
            .unwrap()
    }

    fn removed(fs: &WritableMemoryFs, path: &str) -> Vec<String> {
        let mut told = Vec::new();
        remove_tree(fs, path.as_bytes(), &mut |removed| {
            let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
            told.push(match removed {
                Removed::File(path) => text(path),
                Removed::Directory(path) => text(path) + "/",
                Removed::Failed(error) => format!("!{error}"),
            });
        })
        .unwrap();
        told
    }

    fn tree() -> WritableMemoryFs {
        let fs = WritableMemoryFs::new();
        add(&fs, "/keep", NewKind::Directory);
        add(&fs, "/keep/file", NewKind::Regular);
        add(&fs, "/a", NewKind::Directory);
        add(&fs, "/a/b", NewKind::Directory);
        add(&fs, "/a/b/f", NewKind::Regular);
        add(&fs, "/a/l", NewKind::Symlink(b"/keep"));
        fs
    }

    #[test]
    fn goes_from_the_leaves_up_and_follows_nothing() {
        let fs = tree();
        let mut told = removed(&fs, "/a");
        assert_eq!(told.pop().unwrap(), "/a/");
        told.sort();
        assert_eq!(told, ["/a/b/", "/a/b/f", "/a/l"]);
        assert!(resolve(&fs, "/keep/file", Follow::All).is_ok());
        assert!(resolve(&fs, "/a", Follow::All).is_err());
        assert_eq!(removed(&fs, "/keep/file"), ["/keep/file"]);
        let missing = remove_tree(&fs, b"/no", &mut |_| {}).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(remove_tree(&fs, b"/", &mut |_| {}).is_err());
    }

    #[test]
    fn a_tree_deeper_than_any_path_goes_with_what_is_beside_it() {
        const DEPTH: usize = 3000;
        let fs = WritableMemoryFs::new();
        let attributes = NewAttributes::for_root(0o755);
        let make = |dir, name: &[u8], kind| fs.create(dir, name, kind, &attributes).unwrap();
        let mut dir = make(fs.root(), b"d", NewKind::Directory);
        for _ in 1..DEPTH {
            make(dir, b"a", NewKind::Regular);
            let below = make(dir, b"d", NewKind::Directory);
            make(dir, b"z", NewKind::Regular);
            dir = below;
        }
        let mut told = removed(&fs, "/d");
        assert_eq!(told.len(), DEPTH + 2 * (DEPTH - 1));
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), DEPTH + 2 * (DEPTH - 1));
        assert_eq!(fs.file_count(), 1, "the root");
    }

    #[test]
    fn what_cant_be_removed_keeps_what_it_is_in() {
        let fs = tree();
        let fixed = resolve(&fs, "/a/b/f", Follow::All).unwrap();
        let flags = crate::FileFlags {
            immutable: true,
            ..crate::FileFlags::default()
        };
        let change = SetMetadata {
            flags: Some(flags),
            ..SetMetadata::default()
        };
        fs.set_metadata(fixed, &change).unwrap();
        let told = removed(&fs, "/a");
        assert!(told.contains(&"/a/l".to_owned()), "{told:?}");
        let failed: Vec<_> = told.iter().filter(|text| text.starts_with('!')).collect();
        assert_eq!(failed.len(), 1, "{told:?}");
        assert!(failed[0].contains("/a/b/f"), "{told:?}");
        assert!(resolve(&fs, "/a/b/f", Follow::All).is_ok());
    }

    #[test]
    fn large_directories_go_in_batches() {
        let fs = WritableMemoryFs::new();
        add(&fs, "/d", NewKind::Directory);
        for n in 0..=3 * BATCH_LEN {
            add(&fs, &format!("/d/{n}"), NewKind::Regular);
        }
        assert_eq!(removed(&fs, "/d").len(), 3 * BATCH_LEN + 2);
        assert_eq!(fs.file_count(), 1);
    }

    #[test]
    fn one_name_alone() {
        let fs = tree();
        assert_eq!(remove(&fs, b"/a").unwrap_err().kind(), ErrorKind::NotEmpty);
        remove(&fs, b"/a/l").unwrap();
        remove(&fs, b"/a/b/f").unwrap();
        remove(&fs, b"/a/b/").unwrap();
        remove(&fs, b"/a").unwrap();
        assert!(resolve(&fs, "/keep/file", Follow::All).is_ok());
    }
}
