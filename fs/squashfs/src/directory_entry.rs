//! The listing of a directory: runs of entries, each with a header.

use diskfs_vfs::FileType;
use zerocopy::little_endian::{I16, U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::inode::{DOTS_BYTES, file_type};
use crate::inode_body::Directory;
use crate::inode_reference::InodeReference;
use crate::metadata_block::MetadataCursor;
use crate::volume::Volume;

/// The maximum number of entries after a header.
const RUN_MAX_ENTRIES: u32 = 256;

/// The maximum length of a name, as in Linux.
pub(crate) const NAME_MAX_BYTES: usize = 256;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDirHeader {
    /// The number of entries, less one.
    count: U32,
    start_block: U32,
    inode_number: U32,
}

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDirEntry {
    offset: U16,
    /// The difference from the header's number.
    inode_number: I16,
    entry_type: U16,
    /// The length of the name, less one.
    size: U16,
}

/// An entry of a listing.
#[derive(Debug)]
pub(crate) struct ListedEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) reference: InodeReference,
    /// The stored number of the inode.
    pub(crate) number: u32,
    pub(crate) file_type: FileType,
}

/// A run of entries.
#[derive(Debug, Clone, Copy)]
struct Run {
    left: u32,
    start_block: u32,
    number: u32,
}

/// A place in a listing at which a run begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunPlace {
    /// The offset in the listing.
    pub(crate) position: u32,
    /// The block of the directory table.
    pub(crate) start_block: u32,
    /// The offset in that block.
    pub(crate) offset: u16,
}

impl RunPlace {
    /// Returns the place of the first run.
    pub(crate) fn first(directory: &Directory) -> Self {
        Self {
            position: 0,
            start_block: directory.start_block,
            offset: directory.offset,
        }
    }
}

/// The entries of a listing in order.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    /// `None` for an empty directory, which has no place.
    cursor: Option<MetadataCursor<'a>>,
    position: u64,
    len: u64,
    run: Option<Run>,
}

impl<'a> Listing<'a> {
    /// Returns the entries from a run on.
    pub(crate) fn new(volume: &'a Volume, directory: &Directory, from: RunPlace) -> Result<Self> {
        let len = u64::from(directory.size_bytes.saturating_sub(DOTS_BYTES));
        let place = InodeReference::new(from.start_block, from.offset);
        let cursor = (len > 0).then(|| volume.blocks.cursor(volume.directory_table(), place));
        Ok(Self {
            cursor: cursor.transpose()?,
            position: from.position.into(),
            len,
            run: None,
        })
    }

    /// Returns the offset of the next entry in the listing.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next entry.
    pub(crate) fn next_entry(&mut self) -> Result<Option<ListedEntry>> {
        let Some(mut cursor) = self.cursor.take() else {
            return Ok(None);
        };
        if self.run.is_none() && self.position >= self.len {
            return Ok(None);
        }
        let entry = self.read(&mut cursor)?;
        self.cursor = Some(cursor);
        Ok(Some(entry))
    }

    fn read(&mut self, cursor: &mut MetadataCursor<'_>) -> Result<ListedEntry> {
        let run = match self.run {
            Some(run) => run,
            None => self.header(cursor)?,
        };
        let place = cursor.place();
        self.pass(size_of::<RawDirEntry>(), place)?;
        let raw: RawDirEntry = cursor.read_raw()?;
        let name_len = usize::from(raw.size.get()).saturating_add(1);
        if name_len > NAME_MAX_BYTES {
            let reason = format!("invalid directory entry: a name of {name_len} bytes");
            return Err(corrupt(reason, place));
        }
        self.pass(name_len, place)?;
        let name = cursor.read_vec(name_len)?;
        check_name(&name, place)?;
        let Some(file_type) = file_type(raw.entry_type.get()) else {
            let reason = format!("invalid directory entry: type {}", raw.entry_type.get());
            return Err(corrupt(reason, place));
        };
        let left = run.left.saturating_sub(1);
        self.run = (left > 0).then_some(Run { left, ..run });
        Ok(ListedEntry {
            name,
            reference: InodeReference::new(run.start_block, raw.offset.get()),
            number: run
                .number
                .wrapping_add_signed(i32::from(raw.inode_number.get())),
            file_type,
        })
    }

    fn header(&mut self, cursor: &mut MetadataCursor<'_>) -> Result<Run> {
        let place = cursor.place();
        self.pass(size_of::<RawDirHeader>(), place)?;
        let raw: RawDirHeader = cursor.read_raw()?;
        let left = raw.count.get().saturating_add(1);
        if left > RUN_MAX_ENTRIES {
            let reason = format!("invalid directory header: {left} entries, more than 256");
            return Err(corrupt(reason, place));
        }
        Ok(Run {
            left,
            start_block: raw.start_block.get(),
            number: raw.inode_number.get(),
        })
    }

    /// Moves the position by the length of a structure, which must lie within the listing.
    fn pass(&mut self, len: usize, place: u64) -> Result<()> {
        let end = self
            .position
            .saturating_add(diskfs_block::bytes::len_u64(len));
        if end > self.len {
            let reason = "invalid directory: an entry ends after the directory";
            return Err(corrupt(reason, place));
        }
        self.position = end;
        Ok(())
    }
}

fn check_name(name: &[u8], place: u64) -> Result<()> {
    if name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        let reason = "invalid directory entry: a name that no file can have";
        return Err(corrupt(reason, place));
    }
    Ok(())
}
