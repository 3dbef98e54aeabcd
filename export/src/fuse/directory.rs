//! Listing directories in the pieces that the kernel asks for.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use diskfs_vfs::{DirEntry, FsRead, InodeNumber, Result};

/// How many entries are taken from the filesystem at once, and announced together. A reply holds
/// about 190 (32 KiB, the buffer of getdents(2) in the C library); more at once means fewer and
/// larger reads of the inode table.
const BATCH_LEN: usize = 1024;

/// How many listings that are under way are kept. Past it the oldest one starts a batch anew when
/// it goes on, which costs time, not correctness.
const CURSORS: usize = 32;

/// Where listings go on: what was taken from the filesystem and didn't fit into a reply.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    kept: Mutex<VecDeque<Cursor>>,
}

#[derive(Debug)]
struct Cursor {
    dir: InodeNumber,
    /// The cookie that `rest` continues.
    cookie: u64,
    rest: std::vec::IntoIter<DirEntry>,
    /// Whether nothing comes behind `rest`.
    ends: bool,
}

/// Whether a reply has room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Left,
    /// The entry was not taken.
    Full,
}

/// Whether the attributes of the entries will be wanted, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Names,
    NamesAndAttributes,
}

impl Cursors {
    /// Gives the entries of `dir` behind `cookie` to `take` until that is full.
    pub(super) fn list(
        &self,
        fs: &dyn FsRead,
        dir: InodeNumber,
        cookie: u64,
        listing: Listing,
        mut take: impl FnMut(&DirEntry) -> Room,
    ) -> Result<()> {
        let mut cursor = match self.resume(dir, cookie) {
            Some(cursor) => cursor,
            None => Cursor::read(fs, dir, cookie, listing)?,
        };
        loop {
            while let Some(entry) = cursor.rest.as_slice().first() {
                if take(entry) == Room::Full {
                    self.keep(cursor);
                    return Ok(());
                }
                cursor.cookie = entry.cookie;
                cursor.rest.next();
            }
            if cursor.ends {
                // The kernel comes once more, to learn that this was all.
                self.keep(cursor);
                return Ok(());
            }
            match Cursor::read(fs, dir, cursor.cookie, listing) {
                Ok(next) => cursor = next,
                // What comes before an error is told first; the kernel comes again for the error.
                Err(_) if cursor.cookie != cookie => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn resume(&self, dir: InodeNumber, cookie: u64) -> Option<Cursor> {
        if cookie == 0 {
            return None;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept
            .iter()
            .position(|cursor| cursor.dir == dir && cursor.cookie == cookie)?;
        kept.remove(index)
    }

    fn keep(&self, cursor: Cursor) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= CURSORS {
            kept.pop_front();
        }
        kept.push_back(cursor);
    }
}

impl Cursor {
    /// Takes the next batch. An error behind entries ends the batch before it: reading on from
    /// there will meet it again.
    fn read(fs: &dyn FsRead, dir: InodeNumber, cookie: u64, listing: Listing) -> Result<Self> {
        let mut batch = Vec::new();
        let mut ends = true;
        for entry in fs.read_dir(dir, cookie)? {
            match entry {
                Ok(entry) => batch.push(entry),
                Err(error) if batch.is_empty() => return Err(error),
                Err(_) => {
                    ends = false;
                    break;
                }
            }
            if batch.len() >= BATCH_LEN {
                ends = false;
                break;
            }
        }
        if listing == Listing::NamesAndAttributes {
            announce(fs, &batch);
        }
        Ok(Self {
            dir,
            cookie,
            rest: batch.into_iter(),
            ends,
        })
    }
}

/// Says which inodes will be read, if it is more than one.
fn announce(fs: &dyn FsRead, batch: &[DirEntry]) {
    let inodes: Vec<InodeNumber> = batch
        .iter()
        .filter(|entry| !is_dot(&entry.name))
        .map(|entry| entry.inode)
        .collect();
    if inodes.len() > 1 {
        fs.will_need_metadata(&inodes);
    }
}

/// Whether a name is `.` or `..`.
pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::ErrorKind;
    use diskfs_vfs::testing::{Fault, MemoryFs};

    use super::*;

    /// Lists a directory by replies of `room` entries; an error ends it.
    fn list(fs: &MemoryFs, dir: InodeNumber, room: usize) -> (Vec<Vec<u8>>, Option<ErrorKind>) {
        let cursors = Cursors::default();
        let mut names = vec![];
        let mut cookie = 0;
        loop {
            let mut taken = 0;
            let outcome = cursors.list(fs, dir, cookie, Listing::NamesAndAttributes, |entry| {
                if taken == room {
                    return Room::Full;
                }
                taken += 1;
                cookie = entry.cookie;
                names.push(entry.name.clone());
                Room::Left
            });
            match outcome {
                Ok(()) if taken == 0 => return (names, None),
                Ok(()) => {}
                Err(error) => return (names, Some(error.kind())),
            }
        }
    }

    fn wide(count: usize) -> MemoryFs {
        let mut fs = MemoryFs::new();
        for n in 0..count {
            fs.file(&format!("/{n}"), b"");
        }
        fs
    }

    #[test]
    fn every_entry_comes_once_whatever_fits() {
        let fs = wide(2500);
        let mut expected: Vec<Vec<u8>> = vec![b".".into(), b"..".into()];
        expected.extend((0..2500).map(|n| n.to_string().into_bytes()));
        for room in [1, 7, 190, 1024, 5000] {
            assert_eq!(
                list(&fs, fs.root(), room),
                (expected.clone(), None),
                "{room}"
            );
        }
    }

    #[test]
    fn metadata_is_announced_once_per_batch() {
        let fs = wide(2000);
        list(&fs, fs.root(), 190);
        let lens: Vec<_> = fs.take_metadata_hints().iter().map(Vec::len).collect();
        assert_eq!(lens, [1022, 978]);
    }

    #[test]
    fn what_precedes_an_error_is_told_before_it() {
        let mut fs = wide(3);
        fs.fail(fs.root(), Fault::SecondEntry);
        let (names, error) = list(&fs, fs.root(), 10);
        assert_eq!(names, [&b"."[..], b"..", b"0"]);
        assert_eq!(error, Some(ErrorKind::Io));
    }

    #[test]
    fn listings_that_were_forgotten_go_on_all_the_same() {
        let fs = wide(5);
        let cursors = Cursors::default();
        let step = |cookie: u64| {
            let mut next = None;
            let list = |entry: &DirEntry| {
                if next.is_some() {
                    return Room::Full;
                }
                next = Some(entry.cookie);
                Room::Left
            };
            cursors
                .list(&fs, fs.root(), cookie, Listing::Names, list)
                .unwrap();
            next
        };
        let mut at: Vec<u64> = vec![0; CURSORS * 2];
        for _ in 0..7 {
            for cookie in &mut at {
                *cookie = step(*cookie).unwrap();
            }
        }
        assert!(
            at.iter()
                .all(|&cookie| cookie == 7 && step(cookie).is_none())
        );
    }
}
