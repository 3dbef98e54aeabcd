//! Iteration over the records of a directory.

use diskfs_vfs::{DirEntry, FileType, InodeNumber};

use crate::directory_record::DirectoryRecord;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::node::Node;
use crate::rrip;
use crate::susp::Blocks;
use crate::volume::Volume;
use crate::volume_descriptor::SECTOR_BYTES;

/// An iterator over the records of a directory. It ends after the first error.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    volume: &'a Volume,
    /// The offset of the directory, which is its inode number.
    start: u64,
    /// The offset of the next record. `end` is the end of the directory.
    next: u64,
    end: u64,
}

impl<'a> Entries<'a> {
    /// Returns the entries of the directory `node` from a cookie on.
    pub(crate) fn new(volume: &'a Volume, node: &Node, cookie: u64) -> Result<Self> {
        if !node.is_directory() {
            return Err(ErrorKind::NotADirectory.into());
        }
        volume.check(node.record.data, node.record.place)?;
        let start = node.record.place;
        Ok(Self {
            volume,
            start,
            next: start.saturating_add(cookie),
            end: start.saturating_add(node.record.data.len_bytes.into()),
        })
    }

    /// Returns the next record, shown or not.
    fn record(&mut self) -> Result<Option<DirectoryRecord>> {
        while self.next < self.end {
            if let Some(record) = self.volume.record_at(self.next)? {
                if record.end() > self.end {
                    let reason = "invalid directory record: it ends after its directory";
                    return Err(corrupt(reason, self.next));
                }
                self.next = record.end();
                return Ok(Some(record));
            }
            let rest = SECTOR_BYTES.saturating_sub(self.next % SECTOR_BYTES);
            self.next = self.next.saturating_add(rest);
        }
        Ok(None)
    }

    fn entry(&mut self) -> Result<Option<DirEntry>> {
        while let Some(record) = self.record()? {
            let mut last = record.clone();
            while last.has_next_extent() {
                let next = self.record()?;
                let cut = || {
                    corrupt(
                        "invalid file: missing directory record of its next extent",
                        record.place,
                    )
                };
                last = next.ok_or_else(cut)?;
            }
            if let Some(named) = self.named(&record)? {
                return Ok(Some(DirEntry {
                    name: named.name,
                    inode: InodeNumber(named.place),
                    file_type: Some(named.file_type),
                    cookie: self.next.saturating_sub(self.start),
                }));
            }
        }
        Ok(None)
    }

    /// Returns the name and file of a record; `None` if it is not shown.
    fn named(&self, record: &DirectoryRecord) -> Result<Option<NamedRecord>> {
        if record.is_self() {
            return Ok(Some(NamedRecord::directory(b".".to_vec(), self.start)));
        }
        let system_use = self.volume.system_use(record)?;
        if record.is_parent() {
            let parent = match rrip::parent_link(&system_use, record.place)? {
                Some(block) => self.volume.byte_of(block),
                None => record.data.start_bytes,
            };
            return Ok(Some(NamedRecord::directory(b"..".to_vec(), parent)));
        }
        if record.is_associated() || rrip::is_relocated(&system_use) {
            return Ok(None);
        }
        let name = self.volume.names.of(record, &system_use)?;
        if let Some(block) = rrip::child_link(&system_use, record.place)? {
            return Ok(Some(NamedRecord::directory(
                name,
                self.volume.byte_of(block),
            )));
        }
        if record.is_directory() {
            return Ok(Some(NamedRecord::directory(name, record.data.start_bytes)));
        }
        let node = Node::new(record.clone(), system_use)?;
        Ok(Some(NamedRecord {
            name,
            place: record.place,
            file_type: node.file_type,
        }))
    }
}

/// The name and file of a directory record.
struct NamedRecord {
    name: Vec<u8>,
    place: u64,
    file_type: FileType,
}

impl NamedRecord {
    fn directory(name: Vec<u8>, place: u64) -> Self {
        Self {
            name,
            place,
            file_type: FileType::Directory,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entry();
        if entry.is_err() {
            self.end = 0;
        }
        entry.transpose()
    }
}

/// Looks up a name in a directory.
pub(crate) fn lookup(volume: &Volume, dir: &Node, name: &[u8]) -> Result<InodeNumber> {
    for entry in Entries::new(volume, dir, 0)? {
        let entry = entry?;
        if entry.name == name {
            return Ok(entry.inode);
        }
    }
    Err(Error::from(ErrorKind::NotFound))
}
