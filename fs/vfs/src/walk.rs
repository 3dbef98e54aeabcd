//! Every file below a directory.

use std::collections::HashSet;
use std::fmt;

use crate::{DirEntries, DirEntry, Error, ErrorKind, FsRead, InodeNumber, Metadata, Result};

/// The longest path that a walk goes on below. Programs that go step by step make trees much deeper
/// than `PATH_MAX` can name (this is 128 times as long, 262,144 directories of one letter); without
/// a bound, a hostile tree would cost the square of its depth.
pub const WALK_PATH_MAX_BYTES: usize = 512 << 10;

/// How many entries of a directory are taken at once, so that their metadata is fetched in one go.
/// About four blocks of the inode table of ext4 per read-ahead, and well under 1 MiB of names.
const BATCH_LEN: usize = 1024;

/// The same for what is nested deeper than most trees: there a level keeps nothing but its place
/// while the walk is below it, and reads on from there afterwards.
const DEEP_BATCH_LEN: usize = 32;

/// From where on a directory counts as deep.
const DEEP: usize = 32;

/// A file that a [`Walk`] comes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkEntry {
    /// Its path from where the walk started, without a leading slash; empty for the start itself.
    pub path: Vec<u8>,
    /// Its number.
    pub inode: InodeNumber,
    /// What `stat` tells of it; symlinks are not followed.
    pub metadata: Metadata,
    /// How many directories lie above it: 0 for the start.
    pub depth: usize,
}

impl WalkEntry {
    /// The last name of the path; empty for the start.
    pub fn name(&self) -> &[u8] {
        let name = self.path.rsplit(|&byte| byte == b'/').next();
        name.unwrap_or_default()
    }
}

/// Goes through everything below `start`, `start` itself first.
///
/// A directory comes before its entries, and those in the directory's order; symlinks are not
/// followed. An error is one item of the iterator, with the path that it is about, and the walk
/// goes on behind it: with the next directory when a directory can't be read on, with the next name
/// when a file can't. Whoever wants to stop, stops.
///
/// Safe on any image: a directory is entered once only, however many names lead to it, names that
/// are none (`a/b`, an empty one) are errors, and so is a directory whose path is longer than
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

/// Returns the metadata of an inode that a directory entry names.
///
/// # Errors
/// `Corrupt` when no file has that inode, in a filesystem that nobody changes meanwhile; as
/// [`FsRead::metadata`].
pub fn entry_metadata(fs: &dyn FsRead, inode: InodeNumber) -> Result<Metadata> {
    fs.metadata(inode).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let reason = format!("the entry names inode {inode}, which holds no file");
            Error::new(ErrorKind::Corrupt, reason)
        }
        _ => error,
    })
}

/// The iterator that [`walk`] returns.
pub struct Walk<'a> {
    fs: &'a dyn FsRead,
    /// Where it starts, until that was told.
    start: Option<InodeNumber>,
    /// The directory that was told last: entered when the next item is asked for.
    enter: Option<InodeNumber>,
    /// The directories from the start down to the one that is being read.
    levels: Vec<Level<'a>>,
    /// The path of what was told last.
    path: Vec<u8>,
    visited: HashSet<InodeNumber>,
}

/// A directory that is being read.
struct Level<'a> {
    dir: InodeNumber,
    /// Where the entry behind the last one that was told begins.
    cookie: u64,
    /// What follows is read anew from there on.
    is_parked: bool,
    /// `None` once there are no more.
    entries: Option<DirEntries<'a>>,
    batch: std::vec::IntoIter<DirEntry>,
    /// Why there are no more, told when the batch is used up.
    error: Option<Error>,
    /// How much of the walk's path leads to this directory.
    path_len: usize,
}

impl Walk<'_> {
    /// Leaves out what is below the directory that came last.
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

    /// Remembers a directory as the one to enter next, if it may be entered.
    fn note_directory(&mut self, metadata: &Metadata) -> Result<()> {
        if !metadata.is_dir() {
            return Ok(());
        }
        let inode = metadata.inode;
        if !self.visited.insert(inode) {
            let reason = "directory has several names, or contains itself";
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(inode));
        }
        if self.path.len() > WALK_PATH_MAX_BYTES {
            let reason = "the path is longer than 512 KiB";
            return Err(Error::new(ErrorKind::Unsupported, reason).in_inode(inode));
        }
        self.enter = Some(inode);
        Ok(())
    }

    /// Begins to read a directory.
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

    /// The next item of the innermost directory; `None` at its end.
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
        Some(self.tell(&entry))
    }

    fn tell(&mut self, entry: &DirEntry) -> Result<WalkEntry> {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&entry.name);
        let told = match check_name(&entry.name) {
            Ok(()) => entry_metadata(self.fs, entry.inode),
            Err(error) => Err(error),
        };
        let told = told.and_then(|metadata| {
            self.note_directory(&metadata)?;
            Ok(self.entry(entry.inode, metadata))
        });
        told.map_err(|error| error.in_inode(entry.inode).in_path(&self.path))
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

    /// Lets go of everything but the place.
    fn park(&mut self) {
        let has_more = self.entries.is_some() || self.batch.len() > 0 || self.error.is_some();
        self.is_parked = has_more;
        self.entries = None;
        self.batch = Vec::new().into_iter();
        self.error = None;
    }

    /// Reads the next batch. Returns its first entry.
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

/// A name that could lead anywhere but into its directory is none.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    let reason = if name.is_empty() {
        "empty name in a directory"
    } else if name == b"." || name == b".." {
        "name in a directory stands for another one"
    } else if name.contains(&b'/') || name.contains(&0) {
        "name in a directory contains a slash or NUL"
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

    /// Paths as they are, errors as `!path: reason`.
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
    fn leaves_out_what_it_is_told_to() {
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
        let reason = "directory has several names, or contains itself";
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
        // The first directory whose path is too long is told as an error.
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
