//! Listings of directories, in the order of their index.

use diskfs_vfs::{DirEntry, FileType, InodeNumber};

use super::{number_of, parent};
use crate::cursor::{Cursor, Item};
use crate::dir_item::{DirRecords, Target};
use crate::error::Result;
use crate::key::{Key, item};
use crate::subvolumes::{FileId, Subvolumes};
use crate::volume::Volume;

/// The index of the first entry: `.` and `..` take 0 and 1, as on Linux.
const FIRST_INDEX: u64 = 2;

/// An iterator over the entries of a directory. It ends after the first error. The cookie of an
/// entry is the index after its own.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    volume: &'a Volume,
    subvolumes: &'a Subvolumes,
    dir: FileId,
    /// The cookie of the next entry.
    next: u64,
    /// The position in the tree; `None` before the first entry.
    cursor: Option<Cursor<'a>>,
    is_done: bool,
}

impl<'a> Entries<'a> {
    /// Returns the entries of `dir` from a cookie on.
    pub(crate) fn new(
        volume: &'a Volume,
        subvolumes: &'a Subvolumes,
        dir: FileId,
        cookie: u64,
    ) -> Self {
        Self {
            volume,
            subvolumes,
            dir,
            next: cookie,
            cursor: None,
            is_done: false,
        }
    }

    fn entry(&mut self) -> Result<Option<DirEntry>> {
        match self.next {
            0 => {
                let inode = self.dir.number()?;
                Ok(Some(self.special(b".", inode)))
            }
            1 => {
                let inode = parent(self.volume, self.subvolumes, &self.dir)?.number()?;
                Ok(Some(self.special(b"..", inode)))
            }
            _ => self.named(),
        }
    }

    fn special(&mut self, name: &[u8], inode: InodeNumber) -> DirEntry {
        self.next = self.next.saturating_add(1);
        DirEntry {
            name: name.to_vec(),
            inode,
            file_type: Some(FileType::Directory),
            cookie: self.next,
        }
    }

    fn named(&mut self) -> Result<Option<DirEntry>> {
        let first = Key::new(self.dir.inode, item::DIR_INDEX, self.next.max(FIRST_INDEX));
        let cursor = if let Some(cursor) = &mut self.cursor {
            cursor.advance()?;
            cursor
        } else {
            let tree = &self.dir.subvolume.tree;
            self.cursor.insert(self.volume.at_or_after(tree, first)?)
        };
        let Some(found) = cursor.item().filter(|found| found.key.is_beside(first)) else {
            return Ok(None);
        };
        let entry = entry_of(self.volume, self.subvolumes, &self.dir, found)?;
        self.next = entry.cookie;
        Ok(Some(entry))
    }
}

/// Returns the entry of an item of the index.
fn entry_of(
    volume: &Volume,
    subvolumes: &Subvolumes,
    dir: &FileId,
    found: &Item,
) -> Result<DirEntry> {
    let record = DirRecords::of(found).next();
    let record = record.ok_or_else(|| found.invalid("it is empty"))??;
    if !record.has_valid_name() {
        return Err(found.invalid("it is not the name of a file"));
    }
    let target = record.target(found)?;
    let cookie = found.key.offset.checked_add(1);
    Ok(DirEntry {
        name: record.name.to_vec(),
        inode: number_of(volume, subvolumes, dir, &record, target)?,
        file_type: match target {
            Target::Inode(_) => record.file_type(),
            Target::Subvolume(_) => Some(FileType::Directory),
        },
        cookie: cookie.ok_or_else(|| found.invalid("its index is too large"))?,
    })
}

impl Iterator for Entries<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let entry = self.entry().map_err(|e| match self.dir.number() {
            Ok(number) => e.in_inode(number),
            Err(_) => e,
        });
        self.is_done = !matches!(entry, Ok(Some(_)));
        entry.transpose()
    }
}
