//! Directory listings, which also bring the metadata of the entries.

use diskfs_vfs::{DirEntry, Error, ErrorKind, FileType, InodeNumber, Metadata, Result};

use super::attributes::RequestTime;
use super::connection::MISMATCH;
use super::remote::Remote;
use super::small_files::Listed;
use crate::protocol::{
    Checked, MAX_LIST, MAX_MESSAGE, Operation, Reply, Violation, is_name, take_entry,
};

/// The maximum number of entries of a listing: a hostile agent could send entries without end. The
/// kernel's ext4 has directories of about ten million.
const MAX_ENTRIES: u64 = 1 << 26;

/// The size of the buffer for a page: the requested size, and the entry that crosses it.
const PAGE_BYTES: usize = MAX_LIST + MAX_MESSAGE;

/// An iterator over the entries of a directory.
#[derive(Debug)]
pub(super) struct Listing<'r> {
    fs: &'r Remote,
    dir: InodeNumber,
    /// The cookie at which the next page begins.
    cookie: u64,
    page: Vec<u8>,
    /// The number of bytes of the page that are consumed.
    taken: usize,
    asked: RequestTime,
    seen: u64,
    /// True if no page follows.
    ends: bool,
    /// The small files of this page.
    small: Vec<Listed>,
}

impl<'r> Listing<'r> {
    /// Begins a listing by requesting its first page.
    pub(super) fn new(fs: &'r Remote, dir: InodeNumber, cookie: u64) -> Result<Self> {
        let mut listing = Self {
            fs,
            dir,
            cookie,
            page: Vec::new(),
            taken: 0,
            asked: fs.attributes.request_time(),
            seen: 0,
            ends: false,
            small: Vec::new(),
        };
        listing.next_page()?;
        Ok(listing)
    }

    fn next_page(&mut self) -> Result<()> {
        self.asked = self.fs.attributes.request_time();
        self.page.resize(PAGE_BYTES, 0);
        self.taken = 0;
        let operation = Operation::List {
            dir: self.dir.0,
            cookie: self.cookie,
        };
        let asked = self
            .fs
            .ask_into(operation, &mut self.page, |answer| match answer.reply {
                // A page without entries that isn't the last one would make the listing endless.
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
            self.note_small_files();
            if self.ends {
                return Ok(None);
            }
            self.next_page()?;
        }
        if self.seen >= MAX_ENTRIES {
            let reason = "invalid directory: too many entries";
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(self.dir));
        }
        self.seen = self.seen.saturating_add(1);
        let entry = self.take();
        let entry = entry.map_err(|violation| self.fs.connection.protocol_violation(&violation))?;
        self.cookie = entry.cookie;
        Ok(Some(entry))
    }

    /// Passes on the small files of the page that ends.
    fn note_small_files(&mut self) {
        if !self.small.is_empty() {
            self.fs.small_files.note_listing(&self.small);
            self.fs.send_next();
            self.small.clear();
        }
    }

    fn take(&mut self) -> Checked<DirEntry> {
        let mut rest = self.page.get(self.taken..).unwrap_or_default();
        let entry = take_entry(&mut rest)?;
        self.taken = self.page.len().saturating_sub(rest.len());
        if !is_name(entry.name) || entry.cookie == 0 {
            return Err(Violation("invalid directory entry: invalid name or cookie"));
        }
        if let Some(attributes) = entry.attributes {
            let metadata = Metadata::try_from(attributes)?;
            if metadata.inode.0 != entry.inode {
                return Err(MISMATCH);
            }
            self.small.extend(Listed::new(self.dir, &metadata));
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
