//! A variable store.

use std::fmt;

use diskfs_block::{Error, Result};

use crate::firmware_volume::FirmwareVolume;
use crate::record::{Area, Record, Records};
use crate::variable_header::{HEADER_ALIGNMENT, state};
use crate::variable_store_header::{VARIABLE_STORE_HEADER_BYTES, VariableStoreHeader};
use crate::working_block::FaultTolerantWrite;
use crate::{Attributes, Guid, Variable, ucs2};

/// More than any flash has: AAVMF's of 64 MiB has a volume of 768 KiB.
const MAX_VOLUME_BYTES: usize = 64 << 20;

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// What there is for variables.
    pub total_bytes: usize,
    /// What variables take.
    pub live_bytes: usize,
    /// What deleted ones take: it is free when the store is reclaimed.
    pub deleted_bytes: usize,
    /// What nothing has been written to.
    pub free_bytes: usize,
}

/// The variables of a flash file, and all else that is in it.
#[derive(Clone)]
pub struct VariableStore {
    pub(crate) bytes: Vec<u8>,
    pub(crate) area: Area,
    pub(crate) records: Records,
    fault_tolerant_write: FaultTolerantWrite,
}

impl VariableStore {
    /// Opens the contents of a flash file (`OVMF_VARS_4M.fd`), which begins with its volume of variables. What
    /// follows it is kept as it is.
    ///
    /// # Errors
    /// `Unsupported` for what is none, for stores of another sort, and for volumes of more than 64 MiB;
    /// `Corrupt`.
    pub fn open(bytes: Vec<u8>) -> Result<Self> {
        let volume = FirmwareVolume::read(&bytes)?;
        if volume.len > MAX_VOLUME_BYTES {
            return Err(Error::unsupported("a volume of more than 64 MiB").at(32));
        }
        let contents = bytes.get(..volume.len).unwrap_or_default();
        let header = VariableStoreHeader::read(contents, volume.header_len)?;
        let start = volume
            .header_len
            .saturating_add(VARIABLE_STORE_HEADER_BYTES);
        let end = volume.header_len.saturating_add(header.size_bytes);
        let area = Area {
            format: header.format,
            range: start..end,
        };
        let write = FaultTolerantWrite::read(contents, end, volume.block_bytes);
        Ok(Self {
            records: Records::read(&bytes, &area)?,
            fault_tolerant_write: write,
            area,
            bytes,
        })
    }

    /// The file, with all edits.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The file, with all edits.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What the firmware's own writes are at. While one is interrupted, variables may be missing, and nothing
    /// can be edited.
    pub fn fault_tolerant_write(&self) -> FaultTolerantWrite {
        self.fault_tolerant_write
    }

    /// The variables that count, in the order of the store. Records without a proper name are left out.
    pub fn variables(&self) -> Vec<Variable<'_>> {
        let mut counting = self.counting();
        counting.sort_unstable_by_key(|record| record.start);
        counting
            .iter()
            .filter_map(|record| self.at(record))
            .collect()
    }

    /// The variable of a name.
    pub fn variable(&self, name: &str, vendor: Guid) -> Option<Variable<'_>> {
        let record = self.live(name, vendor).counting?;
        self.at(&record)
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        let lens = self
            .counting()
            .into_iter()
            .map(|record| self.aligned_bytes(&record));
        let total_bytes = self.area.range.len();
        let written = self.records.end.saturating_sub(self.area.range.start);
        let live_bytes = lens.sum();
        Usage {
            total_bytes,
            live_bytes,
            deleted_bytes: written.saturating_sub(live_bytes),
            free_bytes: total_bytes.saturating_sub(written),
        }
    }

    /// What a record takes of the store.
    pub(crate) fn aligned_bytes(&self, record: &Record) -> usize {
        let len = record.whole(&self.bytes, self.area.format).len();
        len.next_multiple_of(HEADER_ALIGNMENT)
    }

    fn at(&self, record: &Record) -> Option<Variable<'_>> {
        let header = record.header(&self.bytes, self.area.format)?;
        let name = ucs2::read_whole(record.name(&self.bytes, self.area.format))?;
        (!name.is_empty()).then(|| Variable {
            name,
            vendor: header.vendor,
            attributes: Attributes(header.attributes),
            authentication: header.authentication,
            data: record.data(&self.bytes, self.area.format),
        })
    }

    /// Of each variable the record that counts: the first that was added; while there is none, the last that
    /// is about to be deleted.
    pub(crate) fn counting(&self) -> Vec<Record> {
        let live = self.records.all.iter().filter(|record| record.is_live());
        let mut live: Vec<Record> = live.copied().collect();
        // Copies of one variable stay in the order of the store.
        live.sort_by(|a, b| self.key(a).cmp(&self.key(b)));
        let copies = live.chunk_by(|a, b| self.key(a) == self.key(b));
        copies.filter_map(counting_of).collect()
    }

    /// What a record's variable is known by.
    fn key(&self, record: &Record) -> (&[u8], Option<Guid>) {
        let header = record.header(&self.bytes, self.area.format);
        let name = record.name(&self.bytes, self.area.format);
        (name, header.map(|header| header.vendor))
    }

    /// All live records of a variable.
    pub(crate) fn live(&self, name: &str, vendor: Guid) -> Live {
        let name = ucs2::to_bytes(name);
        let key = (&*name, Some(vendor));
        let mut live = Live::default();
        let records = self.records.all.iter().filter(|record| record.is_live());
        for record in records.filter(|record| self.key(record) == key) {
            live.add(*record);
        }
        live
    }
}

/// Of copies of one variable the one that counts.
fn counting_of(copies: &[Record]) -> Option<Record> {
    let added = copies.iter().find(|copy| copy.state == state::ADDED);
    added.or(copies.last()).copied()
}

impl fmt::Debug for VariableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VariableStore")
            .field("area", &self.area)
            .field("records", &self.records.all.len())
            .field("fault_tolerant_write", &self.fault_tolerant_write)
            .finish_non_exhaustive()
    }
}

/// The live records of one variable.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// The one that counts.
    pub(crate) counting: Option<Record>,
    /// Those that would count if it did not.
    pub(crate) others: Vec<Record>,
}

impl Live {
    fn add(&mut self, record: Record) {
        match self.counting {
            Some(counting) if counting.state == state::ADDED => self.others.push(record),
            _ => self.others.extend(self.counting.replace(record)),
        }
    }
}
