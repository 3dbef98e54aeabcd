//! Directory listings in the pieces that the kernel requests.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use diskfs_vfs::{DirEntry, FsRead, InodeNumber, Result};

/// The number of entries that are read from the filesystem and announced together. A reply has room
/// for about 190 (32 KiB, the buffer of getdents(2) in the C library); larger batches mean fewer
/// and larger reads of the inode table.
const BATCH_LEN: usize = 1024;

/// The number of listings in progress whose remaining entries are kept. Above it, the oldest one
/// reads its batch again when it goes on, which costs time, not correctness.
const CURSORS: usize = 32;

/// The listings in progress: entries that were read from the filesystem and didn't fit into a
/// reply.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    kept: Mutex<VecDeque<Cursor>>,
}

#[derive(Debug)]
struct Cursor {
    dir: InodeNumber,
    /// The cookie after which `rest` continues.
    cookie: u64,
    rest: std::vec::IntoIter<DirEntry>,
    /// True if no entries follow `rest`.
    ends: bool,
}

/// The answer to an offered entry: whether the reply had room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Left,
    /// The entry was not added.
    Full,
}

/// The kind of a listing: with or without the attributes of the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Names,
    NamesAndAttributes,
}

impl Cursors {
    /// Passes the entries of `dir` after `cookie` to `take` until that returns [`Room::Full`].
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
                // The kernel asks once more to learn that the listing is complete.
                self.keep(cursor);
                return Ok(());
            }
            match Cursor::read(fs, dir, cursor.cookie, listing) {
                Ok(next) => cursor = next,
                // Entries before an error are delivered first; the kernel asks again and then gets
                // the error.
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
    /// Reads the next batch. An error after some entries ends the batch before it: the next batch
    /// will meet it again.
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

/// Announces the inodes that will be read, if there is more than one.
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

/// Returns true if a name is `.` or `..`.
pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::ErrorKind;
    use diskfs_vfs::testing::{Fault, MemoryFs};

    use super::*;

    /// Lists a directory in replies of `room` entries; an error ends the listing.
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
