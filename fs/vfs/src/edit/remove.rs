//! Removal of a file, or of a directory with everything in it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::walk::check_name;
use crate::{
    DirEntry, Error, ErrorKind, FileType, FsWrite, InodeNumber, Result, WALK_PATH_MAX_BYTES,
    check_cancelled, resolve_parent,
};

/// The number of names that are read from a directory at once, so that memory use does not grow
/// with the directory.
const BATCH_LEN: usize = 1024;

/// The depth from which a directory keeps only its position while its subdirectories are removed:
/// programs nest directories without a bound.
const DEEP: usize = 32;

/// The outcome of removing one name.
#[derive(Debug)]
pub enum Removed<'a> {
    /// A file other than a directory was removed.
    File(&'a [u8]),
    /// A directory was removed, with everything in it.
    Directory(&'a [u8]),
    /// The file and its parent directories are kept; the error has the path.
    Failed(Error),
}

/// Removes the file at `path`, or an empty directory. Symlinks are not followed.
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

/// Removes the file at `path` with everything below it, and calls `report` for each name. Symlinks
/// are not followed, so nothing outside of `path` is changed. After an error the removal continues
/// with the next name, unless the failed operation [may be half
/// done](crate::ErrorKind::is_halfway). If `report` returns `Break`, the remaining names are kept.
///
/// # Errors
/// Errors before the first removal: as [`resolve_parent`], and `NotFound`. `Cancelled` if `report`
/// ended the removal.
pub fn remove_tree(
    fs: &dyn FsWrite,
    path: &[u8],
    report: &mut dyn FnMut(Removed<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let (dir, name) = resolve_parent(fs, path)?;
    let inode = fs.lookup(dir, &name).map_err(|error| error.in_path(path))?;
    let mut removal = Removal {
        fs,
        report,
        path: path.to_vec(),
        levels: Vec::new(),
        entered: HashSet::new(),
        ended: false,
        answer: ControlFlow::Continue(()),
    };
    removal.remove_name(dir, name, inode, None);
    while let Some(entry) = removal.next() {
        if let Some(level) = removal.levels.last() {
            removal.remove_name(level.inode, entry.name, entry.inode, entry.file_type);
        }
    }
    check_cancelled(removal.answer)
}

struct Removal<'a> {
    fs: &'a dyn FsWrite,
    report: &'a mut dyn FnMut(Removed<'_>) -> ControlFlow<()>,
    /// The path of the current file.
    path: Vec<u8>,
    levels: Vec<Level>,
    /// The directories that were entered: in a broken filesystem a directory can have several
    /// names, and it is entered only once.
    entered: HashSet<InodeNumber>,
    /// True after an error that prevents all further removals, or a cancellation.
    ended: bool,
    /// The last answer of `report`.
    answer: ControlFlow<()>,
}

/// A directory that is being emptied.
struct Level {
    dir: InodeNumber,
    name: Vec<u8>,
    inode: InodeNumber,
    /// The length of the part of the path that names it.
    path_len: usize,
    batch: std::vec::IntoIter<DirEntry>,
    /// The cookie of the next batch; `None` after the last one.
    cookie: Option<u64>,
    /// The cookie of the entry after the name that was removed last.
    taken: u64,
    /// True if an entry in it could not be removed.
    keeps: bool,
}

impl Removal<'_> {
    /// Removes a name, or enters the directory that it names.
    fn remove_name(
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
        match self.try_remove_name(dir, name, inode, file_type) {
            Ok(Some(level)) => {
                if self.levels.len() > DEEP
                    && let Some(above) = self.levels.last_mut()
                {
                    above.park();
                }
                self.levels.push(level);
            }
            Ok(None) => {
                let answer = (self.report)(Removed::File(&self.path));
                self.follow(answer);
            }
            Err(error) => self.fail(error),
        }
    }

    fn try_remove_name(
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
            let reason = "the directory has several names, or contains itself";
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
        // Corruption in one directory does not affect the others.
        self.ended |= error.kind().is_halfway() && error.kind() != ErrorKind::Corrupt;
        let answer = (self.report)(Removed::Failed(error.in_path(&self.path)));
        self.follow(answer);
    }

    /// Ends the removal if this answer of `report` says so.
    fn follow(&mut self, answer: ControlFlow<()>) {
        self.answer = answer;
        self.ended |= answer.is_break();
    }

    /// Returns the next name of the innermost directory, and removes finished directories on the
    /// way. Returns `None` when all names are processed.
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
                Ok(false) => self.remove_innermost(),
                Err(error) => {
                    level.cookie = None;
                    self.fail(error);
                }
            }
        }
        None
    }

    /// Removes the innermost directory, which is empty now.
    fn remove_innermost(&mut self) {
        let Some(level) = self.levels.pop() else {
            return;
        };
        if level.keeps {
            // The error was reported already; the directories above can't be removed either.
            if let Some(above) = self.levels.last_mut() {
                above.keeps = true;
            }
            return;
        }
        match self.fs.rmdir(level.dir, &level.name) {
            Ok(()) => {
                let answer = (self.report)(Removed::Directory(&self.path));
                self.follow(answer);
            }
            Err(error) => self.fail(error),
        }
    }
}

impl Level {
    /// Drops the names that were read but not processed yet.
    fn park(&mut self) {
        if self.batch.len() > 0 {
            self.batch = Vec::new().into_iter();
            self.cookie = Some(self.taken);
        }
    }

    /// Reads the next batch of names. Returns false if there are no more.
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
        let mut reported = Vec::new();
        remove_tree(fs, path.as_bytes(), &mut |removed| {
            let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
            reported.push(match removed {
                Removed::File(path) => text(path),
                Removed::Directory(path) => text(path) + "/",
                Removed::Failed(error) => format!("!{error}"),
            });
            ControlFlow::Continue(())
        })
        .unwrap();
        reported
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
        let mut reported = removed(&fs, "/a");
        assert_eq!(reported.pop().unwrap(), "/a/");
        reported.sort();
        assert_eq!(reported, ["/a/b/", "/a/b/f", "/a/l"]);
        assert!(resolve(&fs, "/keep/file", Follow::All).is_ok());
        assert!(resolve(&fs, "/a", Follow::All).is_err());
        assert_eq!(removed(&fs, "/keep/file"), ["/keep/file"]);
        let next = ControlFlow::Continue(());
        let missing = remove_tree(&fs, b"/no", &mut |_| next).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(remove_tree(&fs, b"/", &mut |_| next).is_err());
    }

    #[test]
    fn a_cancelled_removal_keeps_the_rest() {
        let fs = tree();
        let mut removed = 0;
        let cancelled = remove_tree(&fs, b"/a", &mut |_| {
            removed += 1;
            ControlFlow::Break(())
        });
        assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(removed, 1);
        assert!(resolve(&fs, "/a/b", Follow::All).is_ok());
        // The last name is removed before its report, so only the report is cancelled.
        let file = remove_tree(&fs, b"/keep/file", &mut |_| ControlFlow::Break(()));
        assert_eq!(file.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(resolve(&fs, "/keep/file", Follow::All).is_err());
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
        let mut reported = removed(&fs, "/d");
        assert_eq!(reported.len(), DEPTH + 2 * (DEPTH - 1));
        reported.sort_unstable();
        reported.dedup();
        assert_eq!(reported.len(), DEPTH + 2 * (DEPTH - 1));
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
        let reported = removed(&fs, "/a");
        assert!(reported.contains(&"/a/l".to_owned()), "{reported:?}");
        let failed: Vec<_> = reported
            .iter()
            .filter(|text| text.starts_with('!'))
            .collect();
        assert_eq!(failed.len(), 1, "{reported:?}");
        assert!(failed[0].contains("/a/b/f"), "{reported:?}");
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
