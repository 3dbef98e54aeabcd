//! Records of lost data: the kernel handed it over after its writer had continued (a shared
//! mapping, a cached write), and the filesystem refused it. The kernel reports the loss to a
//! program that syncs the file; we report it to the process that ends the mount.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{Error, ErrorKind, FsRead, InodeNumber};

/// The number of files that are recorded; of further ones, only that there are more.
const FILES_MAX: usize = 1000;

/// The number of files that the message names.
const FILES_NAMED: usize = 5;

/// The record of the lost data of a mount.
#[derive(Debug, Default)]
pub(in super::super) struct Losses(Mutex<Lost>);

#[derive(Debug, Default)]
struct Lost {
    files: BTreeMap<InodeNumber, LostPart>,
    has_more: bool,
}

/// The lost data of one file: all of it lies within the range.
#[derive(Debug)]
struct LostPart {
    bytes: Range<u64>,
    kind: ErrorKind,
    reason: String,
}

impl Losses {
    fn lost(&self) -> MutexGuard<'_, Lost> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that bytes of a file are lost. Logs the first loss of each file.
    pub(super) fn note(&self, inode: InodeNumber, bytes: Range<u64>, error: &Error) {
        let mut lost = self.lost();
        if lost.files.len() >= FILES_MAX && !lost.files.contains_key(&inode) {
            lost.has_more = true;
            return;
        }
        match lost.files.entry(inode) {
            Entry::Occupied(entry) => {
                let known = &mut entry.into_mut().bytes;
                *known = known.start.min(bytes.start)..known.end.max(bytes.end);
            }
            Entry::Vacant(entry) => {
                let Range { start, end } = bytes;
                tracing::warn!("bytes {start} to {end} of inode {inode} are lost: {error}");
                entry.insert(LostPart {
                    bytes,
                    kind: error.kind(),
                    reason: error.to_string(),
                });
            }
        }
    }

    /// Fails if data is lost of a file that still exists in `fs`.
    pub(in super::super) fn check(&self, fs: &dyn FsRead) -> diskfs_vfs::Result<()> {
        let lost = self.lost();
        let is_there = |inode: InodeNumber| fs.metadata(inode).is_ok();
        let mut files = lost.files.iter().filter(|(inode, _)| is_there(**inode));
        let Some((inode, first)) = files.next() else {
            return Ok(());
        };
        let named = |inode: &InodeNumber, part: &LostPart| {
            let Range { start, end } = part.bytes;
            format!("within bytes {start} to {end} of inode {inode}")
        };
        let mut places = named(inode, first);
        for (inode, part) in files.by_ref().take(FILES_NAMED - 1) {
            // Writing to a string doesn't fail.
            let _ = write!(places, ", {}", named(inode, part));
        }
        match files.count() {
            0 if !lost.has_more => {}
            _ if lost.has_more => places.push_str(", and of many more files"),
            more => {
                let _ = write!(places, ", and of {more} more");
            }
        }
        let reason = format!(
            "data in the kernel's cache was lost: {} ({places})",
            first.reason
        );
        let hint = "write these files again and sync them: a sync reports the error";
        Err(Error::new(first.kind, reason).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::*;

    #[test]
    fn files_that_lost_something_are_named() {
        let mut fs = MemoryFs::new();
        let losses = Losses::default();
        losses.check(&fs).unwrap();
        let error = Error::from(ErrorKind::NoSpace);
        losses.note(InodeNumber(99_999), 0..1, &error);
        losses.check(&fs).expect("the file was removed");
        let files: Vec<_> = (0..9).map(|n| fs.file(&format!("/{n}"), b"")).collect();
        for &file in &files {
            losses.note(file, 4096..8192, &error);
            losses.note(file, 0..10, &error);
        }
        let error = losses.check(&fs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        let first = format!("(within bytes 0 to 8192 of inode {}, ", files[0]);
        let words = error.to_string();
        assert!(
            words.contains(&first) && words.contains("and of 4 more)"),
            "{words}"
        );
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let mut fs = MemoryFs::new();
        let losses = Losses::default();
        for n in 0..FILES_MAX + 10 {
            let file = fs.file(&format!("/{n}"), b"");
            losses.note(file, 0..1, &ErrorKind::Io.into());
        }
        assert_eq!(losses.lost().files.len(), FILES_MAX);
        let words = losses.check(&fs).unwrap_err().to_string();
        assert!(words.contains("many more"), "{words}");
    }
}
