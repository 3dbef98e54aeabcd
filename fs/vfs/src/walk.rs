//! A walk of a directory tree.

use std::collections::HashSet;
use std::fmt;

use crate::{DirEntries, DirEntry, Error, ErrorKind, FsRead, InodeNumber, Metadata, Result};

/// The length limit of paths in a walk. Programs that change directories step by step create trees
/// much deeper than `PATH_MAX` can name (this limit is 128 times `PATH_MAX`, or 262,144 directories
/// with names of one letter). Without a limit, a hostile tree would cost the square of its depth.
pub const WALK_PATH_MAX_BYTES: usize = 512 << 10;

/// The number of directory entries that are read at once, so that their metadata is fetched at
/// once. That is about four blocks of ext4's inode table per read-ahead, and well under 1 MiB of
/// names.
const BATCH_LEN: usize = 1024;

/// The number of entries that are read at once in deep directories. Such a level keeps only its
/// position while the walk is below it, and continues reading there afterwards.
const DEEP_BATCH_LEN: usize = 32;

/// The depth from which a directory counts as deep.
const DEEP: usize = 32;

/// A file that a [`Walk`] yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkEntry {
    /// The path relative to the start, without a leading slash; empty for the start itself.
    pub path: Vec<u8>,
    /// The inode number.
    pub inode: InodeNumber,
    /// The metadata, as lstat(2) returns it.
    pub metadata: Metadata,
    /// The number of directories between the start and the file: 0 for the start.
    pub depth: usize,
}

impl WalkEntry {
    /// Returns the last component of the path; empty for the start.
    pub fn name(&self) -> &[u8] {
        let name = self.path.rsplit(|&byte| byte == b'/').next();
        name.unwrap_or_default()
    }
}

/// Walks `start` and everything below it.
///
/// A directory comes before its entries, in the order of the directory; symlinks are not followed.
/// An error is one item of the iterator, with its path, and the walk continues after it: with the
/// next directory if the rest of a directory can't be read, with the next name if a file can't be
/// read. The caller decides whether to stop.
///
/// The walk is safe on any image. A directory is entered only once, however many names it has.
/// Invalid names (`a/b`, or empty) are errors, and so is a directory whose path is longer than
/// [`WALK_PATH_MAX_BYTES`].
pub fn walk(fs: &dyn FsRead, start: InodeNumber) -> Walk<'_> {
    Walk {
        fs,
        start: Some(start),
        enter: None,
        levels: Vec::new(),
        path: Vec::new(),
        visited: HashSet::new(),
    }
}

/// Returns the metadata of an inode that a directory entry refers to.
///
/// # Errors
/// `Corrupt` if the inode is not in use (the filesystem must not change in the meantime); as
/// [`FsRead::metadata`].
pub fn entry_metadata(fs: &dyn FsRead, inode: InodeNumber) -> Result<Metadata> {
    fs.metadata(inode).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let reason = format!("the entry refers to inode {inode}, which is not in use");
            Error::new(ErrorKind::Corrupt, reason)
        }
        _ => error,
    })
}

/// The iterator that [`walk`] returns.
pub struct Walk<'a> {
    fs: &'a dyn FsRead,
    /// The start, until it was yielded.
    start: Option<InodeNumber>,
    /// The directory that was yielded last, which is entered when the next item is requested.
    enter: Option<InodeNumber>,
    /// The directories from the start down to the one that is being read.
    levels: Vec<Level<'a>>,
    /// The path of the entry that was yielded last.
    path: Vec<u8>,
    visited: HashSet<InodeNumber>,
}

/// A directory that is being read.
struct Level<'a> {
    dir: InodeNumber,
    /// The cookie of the entry after the last one that was yielded.
    cookie: u64,
    /// True if the rest must be read again from `cookie` on.
    is_parked: bool,
    /// The remaining entries; `None` at the end.
    entries: Option<DirEntries<'a>>,
    batch: std::vec::IntoIter<DirEntry>,
    /// The error that ended the directory, yielded when the batch is used up.
    error: Option<Error>,
    /// The length of the part of the walk's path that names this directory.
    path_len: usize,
}

impl Walk<'_> {
    /// Skips the entries of the directory that was yielded last.
    pub fn skip_dir(&mut self) {
        self.enter = None;
    }

    fn begin(&mut self, start: InodeNumber) -> Result<WalkEntry> {
        let metadata = self.fs.metadata(start)?;
        self.note_directory(&metadata)?;
        Ok(self.entry(start, metadata))
    }

    fn entry(&self, inode: InodeNumber, metadata: Metadata) -> WalkEntry {
        WalkEntry {
            path: self.path.clone(),
            inode,
            metadata,
            depth: self.levels.len(),
        }
    }

    /// Records a directory as the one to enter next, if it may be entered.
    fn note_directory(&mut self, metadata: &Metadata) -> Result<()> {
        if !metadata.is_dir() {
            return Ok(());
        }
        let inode = metadata.inode;
        if !self.visited.insert(inode) {
            let reason = "the directory has several names, or contains itself";
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(inode));
        }
        if self.path.len() > WALK_PATH_MAX_BYTES {
            let reason = "the path is longer than 512 KiB";
            return Err(Error::new(ErrorKind::Unsupported, reason).in_inode(inode));
        }
        self.enter = Some(inode);
        Ok(())
    }

    /// Starts to read a directory.
    fn descend(&mut self, dir: InodeNumber) -> Result<()> {
        let entries = self.fs.read_dir(dir, 0);
        if self.levels.len() > DEEP
            && let Some(above) = self.levels.last_mut()
        {
            above.park();
        }
        self.levels.push(Level {
            dir,
            cookie: 0,
            is_parked: false,
            entries: Some(entries.map_err(|error| error.in_inode(dir).in_path(&self.path))?),
            batch: Vec::new().into_iter(),
            error: None,
            path_len: self.path.len(),
        });
        Ok(())
    }

    /// Returns the next item of the innermost directory; `None` at its end.
    fn next_in_level(&mut self) -> Option<Result<WalkEntry>> {
        let batch_len = if self.levels.len() > DEEP {
            DEEP_BATCH_LEN
        } else {
            BATCH_LEN
        };
        let level = self.levels.last_mut()?;
        self.path.truncate(level.path_len);
        let Some(entry) = level.next_entry(self.fs, batch_len) else {
            let error = level.error.take()?;
            return Some(Err(error.in_path(&self.path)));
        };
        Some(self.walk_entry(&entry))
    }

    fn walk_entry(&mut self, entry: &DirEntry) -> Result<WalkEntry> {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&entry.name);
        let walked = match check_name(&entry.name) {
            Ok(()) => entry_metadata(self.fs, entry.inode),
            Err(error) => Err(error),
        };
        let walked = walked.and_then(|metadata| {
            self.note_directory(&metadata)?;
            Ok(self.entry(entry.inode, metadata))
        });
        walked.map_err(|error| error.in_inode(entry.inode).in_path(&self.path))
    }
}

impl<'a> Level<'a> {
    fn next_entry(&mut self, fs: &'a dyn FsRead, batch_len: usize) -> Option<DirEntry> {
        let next = self.batch.next().or_else(|| self.next_batch(fs, batch_len));
        if let Some(entry) = &next {
            self.cookie = entry.cookie;
        }
        next
    }

    /// Drops everything but the position.
    fn park(&mut self) {
        let has_more = self.entries.is_some() || self.batch.len() > 0 || self.error.is_some();
        self.is_parked = has_more;
        self.entries = None;
        self.batch = Vec::new().into_iter();
        self.error = None;
    }

    /// Reads the next batch, and returns its first entry.
    fn next_batch(&mut self, fs: &'a dyn FsRead, batch_len: usize) -> Option<DirEntry> {
        if std::mem::take(&mut self.is_parked) {
            match fs.read_dir(self.dir, self.cookie) {
                Ok(entries) => self.entries = Some(entries),
                Err(error) => self.error = Some(error.in_inode(self.dir)),
            }
        }
        self.refill(batch_len);
        if self.batch.len() > 1 {
            let inodes: Vec<_> = self
                .batch
                .as_slice()
                .iter()
                .map(|entry| entry.inode)
                .collect();
            fs.will_need_metadata(&inodes);
        }
        self.batch.next()
    }

    fn refill(&mut self, batch_len: usize) {
        let Some(entries) = &mut self.entries else {
            return;
        };
        let mut batch = Vec::new();
        let ended = loop {
            if batch.len() >= batch_len {
                break false;
            }
            match entries.next() {
                Some(Ok(entry)) if entry.name == b"." || entry.name == b".." => {}
                Some(Ok(entry)) => batch.push(entry),
                Some(Err(error)) => {
                    self.error = Some(error);
                    break true;
                }
                None => break true,
            }
        };
        if ended {
            self.entries = None;
        }
        self.batch = batch.into_iter();
    }
}

/// Fails for a name that could lead out of its directory.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    let reason = if name.is_empty() {
        "invalid directory entry: the name is empty"
    } else if name == b"." || name == b".." {
        "invalid directory entry: the name is `.` or `..`"
    } else if name.contains(&b'/') || name.contains(&0) {
        "invalid directory entry: the name contains a slash or NUL"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Corrupt, reason))
}

impl Iterator for Walk<'_> {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(start) = self.start.take() {
            return Some(self.begin(start).map_err(|error| error.in_inode(start)));
        }
        if let Some(dir) = self.enter.take()
            && let Err(error) = self.descend(dir)
        {
            return Some(Err(error));
        }
        while !self.levels.is_empty() {
            if let Some(item) = self.next_in_level() {
                return Some(item);
            }
            self.levels.pop();
        }
        None
    }
}

impl fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk")
            .field("path", &String::from_utf8_lossy(&self.path))
            .field("depth", &self.levels.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fault, MemoryFs};

    fn paths(fs: &MemoryFs) -> Vec<String> {
        walk(fs, fs.root())
            .map(|item| String::from_utf8_lossy(&item.unwrap().path).into_owned())
            .collect()
    }

    /// Returns paths unchanged, and errors as `!path: reason`.
    fn items(fs: &MemoryFs) -> Vec<String> {
        walk(fs, fs.root())
            .map(|item| match item {
                Ok(entry) => String::from_utf8_lossy(&entry.path).into_owned(),
                Err(error) => format!(
                    "!{}: {}",
                    String::from_utf8_lossy(error.path().unwrap_or(b"?")),
                    error.reason()
                ),
            })
            .collect()
    }

    #[test]
    fn goes_depth_first_in_directory_order() {
        let mut fs = MemoryFs::new();
        fs.file("/z", b"");
        fs.file("/d/b", b"");
        fs.file("/d/a", b"");
        fs.symlink("/d/l", "/");
        fs.file("/y", b"");
        assert_eq!(paths(&fs), ["", "z", "d", "d/b", "d/a", "d/l", "y"]);
        let depths: Vec<_> = walk(&fs, fs.root()).map(|e| e.unwrap().depth).collect();
        assert_eq!(depths, [0, 1, 1, 2, 2, 2, 1]);
        let names: Vec<_> = walk(&fs, fs.root())
            .map(|e| e.unwrap().name().to_vec())
            .collect();
        assert_eq!(names[3], b"b");
        assert_eq!(names[0], b"");
    }

    #[test]
    fn starts_anywhere_even_at_a_file() {
        let mut fs = MemoryFs::new();
        let file = fs.file("/d/f", b"");
        let entries: Vec<_> = walk(&fs, file).map(Result::unwrap).collect();
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].inode, entries[0].path.as_slice()),
            (file, &b""[..])
        );
        assert!(walk(&fs, InodeNumber(999)).next().unwrap().is_err());
    }

    #[test]
    fn leaves_out_what_is_excluded() {
        let mut fs = MemoryFs::new();
        fs.file("/a/b/c", b"");
        fs.file("/d", b"");
        let mut seen = vec![];
        let mut walk = walk(&fs, fs.root());
        while let Some(entry) = walk.next() {
            let entry = entry.unwrap();
            if entry.path == b"a" {
                walk.skip_dir();
            }
            seen.push(entry.path);
        }
        assert_eq!(seen, [&b""[..], b"a", b"d"]);
    }

    #[test]
    fn a_directory_that_contains_itself_is_an_error_and_no_loop() {
        let mut fs = MemoryFs::new();
        let dir = fs.dir("/a");
        fs.dir("/a/b");
        fs.entry("/a/b/again", dir);
        fs.entry("/a/root", fs.root());
        fs.file("/z", b"");
        let reason = "the directory has several names, or contains itself";
        assert_eq!(
            items(&fs),
            [
                String::new(),
                "a".into(),
                "a/b".into(),
                format!("!a/b/again: {reason}"),
                format!("!a/root: {reason}"),
                "z".into()
            ]
        );
    }

    #[test]
    fn many_names_for_directories_do_not_multiply_the_work() {
        let mut fs = MemoryFs::new();
        let mut path = String::new();
        for n in 0..64 {
            let dir = fs.dir(&format!("{path}/a"));
            fs.entry(&format!("{path}/b"), dir);
            path = format!("{path}/a");
            assert!(n < 64);
        }
        assert_eq!(items(&fs).len(), 1 + 2 * 64);
    }

    #[test]
    fn depth_is_bounded() {
        let mut fs = MemoryFs::new();
        let name = format!("/{}", "d".repeat(255));
        fs.dir(&name.repeat(2051));
        let items = items(&fs);
        // The first directory whose path is too long yields an error.
        assert_eq!(items.len(), 2050);
        assert!(items.last().unwrap().ends_with("longer than 512 KiB"));
    }

    #[test]
    fn what_no_path_of_a_program_names_is_come_by() {
        let mut fs = MemoryFs::new();
        let deep = "/d".repeat(3000);
        for name in ["a", "b", "z"] {
            fs.file(&format!("{deep}/{name}"), b"");
            fs.file(&format!("{}/{name}", &deep[..2000]), b"");
        }
        let paths = paths(&fs);
        assert_eq!(paths.len(), 1 + 3000 + 6);
        let mut once = paths.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), paths.len());
    }

    #[test]
    fn goes_on_behind_errors() {
        let mut fs = MemoryFs::new();
        let unreadable = fs.dir("/a");
        fs.file("/a/hidden", b"");
        let broken = fs.dir("/b");
        fs.file("/b/first", b"");
        fs.file("/b/second", b"");
        let bad_inode = fs.file("/c", b"");
        fs.file("/d", b"");
        fs.fail(unreadable, Fault::ReadDir);
        fs.fail(broken, Fault::SecondEntry);
        fs.fail(bad_inode, Fault::Metadata);
        assert_eq!(
            items(&fs),
            [
                "",
                "a",
                "!a: injected",
                "b",
                "b/first",
                "!b: injected",
                "!c: injected",
                "d"
            ]
        );
    }

    #[test]
    fn names_that_lead_elsewhere_are_errors() {
        let mut fs = MemoryFs::new();
        let file = fs.file("/f", b"");
        for name in ["", "../../etc/passwd", "nul\0"] {
            fs.raw_entry(fs.root(), name.as_bytes(), file);
        }
        let errors = walk(&fs, fs.root()).filter(Result::is_err).count();
        assert_eq!(errors, 3);
    }

    #[test]
    fn asks_for_metadata_in_batches() {
        let mut fs = MemoryFs::new();
        for n in 0..2500 {
            fs.file(&format!("/{n}"), b"");
        }
        assert_eq!(paths(&fs).len(), 2501);
        let batches: Vec<_> = fs.take_metadata_hints().iter().map(Vec::len).collect();
        assert_eq!(batches, [1024, 1024, 452]);
    }
}
