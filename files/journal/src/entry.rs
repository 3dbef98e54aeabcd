//! `EntryObject`: a log entry with its times and the offsets of its fields.
//! <https://systemd.io/JOURNAL_FILE_FORMAT/#entry-objects>

use std::fmt;
use std::sync::Arc;

use diskfs_block::{Error, Result, len_of};
use uuid::Uuid;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::data::{self, Field};
use crate::object::{Object, ObjectHeader, ObjectType};
use crate::reader::Reader;

/// The maximum number of fields of an entry. Clients may send 1024 (`ENTRY_FIELD_COUNT_MAX` of
/// `journal-importer.h`), and journald adds about a hundred.
const MAX_FIELDS: u64 = 2048;

/// The maximum size of an entry's fields together: `ENTRY_SIZE_MAX` of `journal-importer.h`.
const ENTRY_SIZE_MAX: u64 = 770 << 20;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    object: ObjectHeader,
    seqnum: U64,
    realtime: U64,
    monotonic: U64,
    boot_id: [u8; 16],
    xor_hash: U64,
}

/// The size of the fixed part. The items follow it.
const RAW_BYTES: u64 = 64;

const _: () = assert!(size_of::<Raw>() == 64);

impl Object for Raw {
    const KIND: ObjectType = ObjectType::Entry;

    fn header(&self) -> &ObjectHeader {
        &self.object
    }
}

/// A log entry.
#[derive(Clone)]
pub struct Entry {
    /// The wall-clock time in microseconds since 1970 (UTC).
    pub realtime_us: u64,
    /// The time in microseconds since the boot.
    pub monotonic_us: u64,
    /// The ID of the boot in which it was logged.
    pub boot_id: Uuid,
    /// The sequence number, within those of [`Header::seqnum_id`](crate::Header::seqnum_id).
    pub seqnum: u64,
    /// The exclusive or of the hashes of its fields.
    xor_hash: u64,
    offset: u64,
    size: u64,
    reader: Arc<Reader>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Entry");
        f.field("realtime_us", &self.realtime_us)
            .field("boot_id", &self.boot_id)
            .field("seqnum", &self.seqnum)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Entry {
    pub(crate) fn read(reader: &Arc<Reader>, offset: u64) -> Result<Self> {
        let raw: Raw = reader.object(offset)?;
        let entry = Self {
            realtime_us: raw.realtime.get(),
            monotonic_us: raw.monotonic.get(),
            boot_id: Uuid::from_bytes(raw.boot_id),
            seqnum: raw.seqnum.get(),
            xor_hash: raw.xor_hash.get(),
            offset,
            size: raw.object.size.get(),
            reader: Arc::clone(reader),
        };
        if entry.field_count() > MAX_FIELDS {
            let reason = format!(
                "entry is too large: {} fields, at most {MAX_FIELDS}",
                entry.field_count()
            );
            return Err(Error::corrupt(reason).at(offset));
        }
        Ok(entry)
    }

    /// Returns the offset of the entry in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the offset after the entry. The object is within the file, so the sum does not
    /// overflow.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// Returns the cursor, as `journalctl --after-cursor` takes it (`sd_journal_get_cursor(3)`).
    pub fn cursor(&self) -> String {
        format!(
            "s={};i={:x};b={};m={:x};t={:x};x={:x}",
            self.reader.header.seqnum_id.simple(),
            self.seqnum,
            self.boot_id.simple(),
            self.monotonic_us,
            self.realtime_us,
            self.xor_hash,
        )
    }

    fn item_bytes(&self) -> u64 {
        // Items of compact files are an offset only, without the hash.
        if self.reader.is_compact() { 4 } else { 16 }
    }

    fn field_count(&self) -> u64 {
        let items = self.size.saturating_sub(RAW_BYTES);
        items.checked_div(self.item_bytes()).unwrap_or(0)
    }

    /// Returns the fields; each is read when the iterator gets to it. At most `limit_bytes` of each
    /// value are read ([`Field::is_truncated`] says whether there are more). No value is longer
    /// than [`DATA_SIZE_MAX`](crate::DATA_SIZE_MAX).
    pub fn fields(&self, limit_bytes: u64) -> Fields<'_> {
        let (items, problem) = match self.items() {
            Ok(items) => (items, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        Fields {
            entry: self,
            items,
            problem,
            limit_bytes,
            spent_bytes: 0,
        }
    }

    /// Returns the offsets of the fields in reverse order.
    fn items(&self) -> Result<Vec<u64>> {
        let len = self.field_count().saturating_mul(self.item_bytes());
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let items_offset = self.offset.saturating_add(RAW_BYTES);
        self.reader.read(items_offset, &mut bytes)?;
        let item_bytes = usize::try_from(self.item_bytes()).unwrap_or(16);
        let items = bytes.chunks_exact(item_bytes).rev();
        Ok(items.map(|item| self.offset_of(item)).collect())
    }

    fn offset_of(&self, item: &[u8]) -> u64 {
        let mut offset = [0; 8];
        let len = if self.reader.is_compact() { 4 } else { 8 };
        for (to, from) in offset.iter_mut().zip(item).take(len) {
            *to = *from;
        }
        u64::from_le_bytes(offset)
    }
}

/// An iterator over the fields of an entry. A broken field yields an error in its position.
#[derive(Debug)]
pub struct Fields<'a> {
    entry: &'a Entry,
    /// The offsets of the remaining fields in reverse order.
    items: Vec<u64>,
    /// The error of reading the list of fields.
    problem: Option<Error>,
    limit_bytes: u64,
    spent_bytes: u64,
}

impl Iterator for Fields<'_> {
    type Item = Result<Field>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.problem.take() {
            return Some(Err(error));
        }
        let offset = self.items.pop()?;
        let field = data::read(&self.entry.reader, offset, self.limit_bytes);
        if let Ok(field) = &field {
            let len = len_of(field.name()).saturating_add(len_of(field.value()));
            self.spent_bytes = self.spent_bytes.saturating_add(len);
        }
        if self.spent_bytes > ENTRY_SIZE_MAX {
            self.items.clear();
            let reason = format!("entry is too large: at most {ENTRY_SIZE_MAX} bytes");
            return Some(Err(Error::corrupt(reason).at(self.entry.offset)));
        }
        Some(field)
    }
}
