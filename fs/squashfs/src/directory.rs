//! Directories: iteration and lookup.

use diskfs_vfs::{DirEntry, FileType, InodeNumber};

use crate::directory_entry::Listing;
use crate::directory_index::last_run;
use crate::error::{Error, ErrorKind, Result};
use crate::inode::Inode;
use crate::volume::Volume;

/// The cookies after `.` and `..`. That of another entry is its end in the listing, plus the cookie
/// after `..`.
const AFTER_SELF: u64 = 1;
const AFTER_PARENT: u64 = 2;

/// An iterator over the entries of a directory. It ends after the first error.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    volume: &'a Volume,
    listing: Listing<'a>,
    inode: InodeNumber,
    /// `None` until the parent is looked up.
    dots: Dots,
    has_failed: bool,
    directory: Inode,
}

/// The next of the entries that are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dots {
    This,
    Parent,
    Done,
}

impl<'a> Entries<'a> {
    /// Returns the entries of the directory `inode` from a cookie on.
    pub(crate) fn new(volume: &'a Volume, inode: Inode, cookie: u64) -> Result<Self> {
        let directory = inode.directory()?;
        let target = cookie.saturating_sub(AFTER_PARENT);
        let start = last_run(volume, directory, |position, _| {
            u64::from(position) <= target
        })?;
        let mut listing = Listing::new(volume, directory, start)?;
        while listing.position() < target {
            if listing.next_entry()?.is_none() {
                break;
            }
        }
        Ok(Self {
            volume,
            listing,
            inode: inode.number,
            dots: match cookie {
                0 => Dots::This,
                AFTER_SELF => Dots::Parent,
                _ => Dots::Done,
            },
            has_failed: false,
            directory: inode,
        })
    }

    fn entry(&mut self) -> Result<Option<DirEntry>> {
        let dot = |name: &[u8], inode, cookie| {
            Ok(Some(DirEntry {
                name: name.to_vec(),
                inode,
                file_type: Some(FileType::Directory),
                cookie,
            }))
        };
        match self.dots {
            Dots::This => {
                self.dots = Dots::Parent;
                return dot(b".", self.inode, AFTER_SELF);
            }
            Dots::Parent => {
                self.dots = Dots::Done;
                let parent = parent(self.volume, &self.directory)?;
                return dot(b"..", parent, AFTER_PARENT);
            }
            Dots::Done => {}
        }
        let Some(entry) = self.listing.next_entry()? else {
            return Ok(None);
        };
        Ok(Some(DirEntry {
            inode: self.volume.number_of(entry.reference, entry.number)?,
            name: entry.name,
            file_type: Some(entry.file_type),
            cookie: self.listing.position().saturating_add(AFTER_PARENT),
        }))
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let entry = self.entry();
        self.has_failed = entry.is_err();
        entry
            .map_err(|error| error.in_inode(self.inode))
            .transpose()
    }
}

/// Returns the parent of a directory; that of the root is the root.
fn parent(volume: &Volume, inode: &Inode) -> Result<InodeNumber> {
    if inode.reference == volume.superblock.root {
        return Ok(inode.number);
    }
    let stored = inode.directory()?.parent;
    if volume.has_exports() {
        return volume.number_of(inode.reference, stored);
    }
    crate::parents::directory(volume, stored)
}

/// Looks up a name in a directory.
///
/// # Errors
/// `NotADirectory`, `NotFound`.
pub(crate) fn lookup(volume: &Volume, inode: &Inode, name: &[u8]) -> Result<InodeNumber> {
    let directory = inode.directory()?;
    match name {
        b"." => return Ok(inode.number),
        b".." => return parent(volume, inode),
        _ => {}
    }
    let start = last_run(volume, directory, |_, first| first <= name)?;
    let mut listing = Listing::new(volume, directory, start)?;
    while let Some(entry) = listing.next_entry()? {
        if entry.name == name {
            return volume.number_of(entry.reference, entry.number);
        }
        // The listing is sorted by name. Like Linux, rely on the order of first bytes only.
        if entry.name.first() > name.first() {
            break;
        }
    }
    Err(Error::from(ErrorKind::NotFound))
}
