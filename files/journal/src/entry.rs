//! `EntryObject`: when something was logged, and where its fields are.
//! <https://systemd.io/JOURNAL_FILE_FORMAT/#entry-objects>

use std::fmt;
use std::sync::Arc;

use diskfs_block::{Error, Result, len_of};
use uuid::Uuid;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::data::{self, Field};
use crate::object::{Kind, Object, ObjectHeader};
use crate::reader::Reader;

/// More fields than an entry has: clients may send 1024 (`ENTRY_FIELD_COUNT_MAX` of `journal-importer.h`), to which
/// journald adds its own, about a hundred.
const MAX_FIELDS: u64 = 2048;

/// More bytes than the fields of an entry have together: `ENTRY_SIZE_MAX` of `journal-importer.h`.
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

/// Of the fixed part; the items follow.
const RAW_BYTES: u64 = 64;

const _: () = assert!(size_of::<Raw>() == 64);

impl Object for Raw {
    const KIND: Kind = Kind::Entry;

    fn header(&self) -> &ObjectHeader {
        &self.object
    }
}

/// What was logged at once.
#[derive(Clone)]
pub struct Entry {
    /// When, by the wall clock, in microseconds since 1970 (UTC).
    pub realtime_us: u64,
    /// When, in microseconds since the boot.
    pub monotonic_us: u64,
    /// The boot that it was in.
    pub boot_id: Uuid,
    /// Its number among those of [`Header::seqnum_id`](crate::Header::seqnum_id).
    pub seqnum: u64,
    /// The hashes of its fields, by exclusive or.
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
            let reason = format!("an entry of {} fields", entry.field_count());
            return Err(Error::corrupt(reason).at(offset));
        }
        Ok(entry)
    }

    /// Where it is in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Where it ends. The object lies within the file, so this does not wrap.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// Its cursor, as `journalctl --after-cursor` takes it (`sd_journal_get_cursor(3)`).
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
        // Compact ones lack the hash beside the offset.
        if self.reader.is_compact() { 4 } else { 16 }
    }

    fn field_count(&self) -> u64 {
        let items = self.size.saturating_sub(RAW_BYTES);
        items.checked_div(self.item_bytes()).unwrap_or(0)
    }

    /// Its fields, each read when it is asked for. Of longer values only the first `limit_bytes` are read, which
    /// [`Field::is_cut`] tells; none is longer than [`DATA_SIZE_MAX`](crate::DATA_SIZE_MAX).
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

    /// Where its fields are, the last one first.
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

/// The fields of an entry. A broken one is an error in its place.
#[derive(Debug)]
pub struct Fields<'a> {
    entry: &'a Entry,
    /// What is left, the last one first.
    items: Vec<u64>,
    /// What kept the list of fields from being read.
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
            let reason = format!("an entry of more than {ENTRY_SIZE_MAX} bytes");
            return Some(Err(Error::corrupt(reason).at(self.entry.offset)));
        }
        Some(field)
    }
}
