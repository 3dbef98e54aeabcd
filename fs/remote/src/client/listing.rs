//! Listings, which bring the metadata of what they list.

use diskfs_vfs::{DirEntry, Error, ErrorKind, FileType, InodeNumber, Metadata, Result};

use super::attributes::Asked;
use super::connection::MISMATCH;
use super::remote::Remote;
use crate::protocol::{
    Checked, MAX_LIST, MAX_MESSAGE, Operation, Reply, Violation, is_name, take_entry,
};

/// A listing never has more entries: whoever makes up names without end is not followed for ever.
/// The kernel's ext4 has directories of some ten million.
const MAX_ENTRIES: u64 = 1 << 26;

/// What is asked for, and the entry that crosses its end.
const PAGE_BYTES: usize = MAX_LIST + MAX_MESSAGE;

/// The entries of a directory.
#[derive(Debug)]
pub(super) struct Listing<'r> {
    fs: &'r Remote,
    dir: InodeNumber,
    /// Where the next page begins.
    cookie: u64,
    page: Vec<u8>,
    /// What of the page was taken.
    taken: usize,
    asked: Asked,
    seen: u64,
    /// Whether nothing comes behind the page.
    ends: bool,
}

impl<'r> Listing<'r> {
    /// Begins one; the first page is there then.
    pub(super) fn new(fs: &'r Remote, dir: InodeNumber, cookie: u64) -> Result<Self> {
        let mut listing = Self {
            fs,
            dir,
            cookie,
            page: Vec::new(),
            taken: 0,
            asked: fs.attributes.asked(),
            seen: 0,
            ends: false,
        };
        listing.next_page()?;
        Ok(listing)
    }

    fn next_page(&mut self) -> Result<()> {
        self.asked = self.fs.attributes.asked();
        self.page.resize(PAGE_BYTES, 0);
        self.taken = 0;
        let operation = Operation::List {
            dir: self.dir.0,
            cookie: self.cookie,
        };
        let asked = self
            .fs
            .ask_into(operation, &mut self.page, |answer| match answer.reply {
                // Without entries and without an end it would never end.
                Reply::Entries { ends } if ends || !answer.bulk.is_empty() => {
                    Ok((ends, answer.bulk.len()))
                }
                _ => Err(MISMATCH),
            });
        let (ends, len) = asked.inspect_err(|_| self.page.clear())?;
        self.ends = ends;
        self.page.truncate(len);
        Ok(())
    }

    fn next_entry(&mut self) -> Result<Option<DirEntry>> {
        while self.taken >= self.page.len() {
            if self.ends {
                return Ok(None);
            }
            self.next_page()?;
        }
        if self.seen >= MAX_ENTRIES {
            let reason = "the directory has more entries than any can";
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(self.dir));
        }
        self.seen = self.seen.saturating_add(1);
        let entry = self.take();
        let entry = entry.map_err(|violation| self.fs.connection.broken(&violation))?;
        self.cookie = entry.cookie;
        Ok(Some(entry))
    }

    fn take(&mut self) -> Checked<DirEntry> {
        let mut rest = self.page.get(self.taken..).unwrap_or_default();
        let entry = take_entry(&mut rest)?;
        self.taken = self.page.len().saturating_sub(rest.len());
        if !is_name(entry.name) || entry.cookie == 0 {
            return Err(Violation("a directory's entry has no name, or no place"));
        }
        if let Some(attributes) = entry.attributes {
            let metadata = Metadata::try_from(attributes)?;
            if metadata.inode.0 != entry.inode {
                return Err(MISMATCH);
            }
            self.fs.attributes.keep(self.asked, &metadata);
        }
        Ok(DirEntry {
            name: entry.name.to_vec(),
            inode: InodeNumber(entry.inode),
            file_type: FileType::from_mode(entry.type_bits),
            cookie: entry.cookie,
        })
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_entry().transpose();
        if matches!(next, Some(Err(_))) {
            self.ends = true;
            self.taken = self.page.len();
        }
        next
    }
}
