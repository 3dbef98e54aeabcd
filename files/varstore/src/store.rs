//! The variable store.

use std::fmt;

use diskfs_block::{Error, Result};

use crate::firmware_volume::FirmwareVolume;
use crate::record::{Area, Record, Records};
use crate::variable_header::{HEADER_ALIGNMENT, state};
use crate::variable_store_header::{VARIABLE_STORE_HEADER_BYTES, VariableStoreHeader};
use crate::working_block::FaultTolerantWrite;
use crate::{Attributes, Guid, Variable, ucs2};

/// The maximum size of a volume. AAVMF's flash of 64 MiB has a volume of 768 KiB.
const MAX_VOLUME_BYTES: usize = 64 << 20;

/// The usage of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The total space for variables.
    pub total_bytes: usize,
    /// The space of valid variables.
    pub live_bytes: usize,
    /// The space of deleted variables, which is free after reclaiming.
    pub deleted_bytes: usize,
    /// The space that is erased and free.
    pub free_bytes: usize,
}

/// The variables of a flash file, with the rest of the file.
#[derive(Clone)]
pub struct VariableStore {
    pub(crate) bytes: Vec<u8>,
    pub(crate) area: Area,
    pub(crate) records: Records,
    fault_tolerant_write: FaultTolerantWrite,
}

impl VariableStore {
    /// Opens the contents of a flash file (`OVMF_VARS_4M.fd`), which must start with the volume of
    /// variables. The rest of the file is preserved.
    ///
    /// # Errors
    /// `Unsupported` if there is no store or one of another type, and for volumes of more than 64
    /// MiB; `Corrupt` if a structure is invalid.
    pub fn open(bytes: Vec<u8>) -> Result<Self> {
        let volume = FirmwareVolume::read(&bytes)?;
        if volume.len > MAX_VOLUME_BYTES {
            return Err(Error::unsupported("firmware volume is too large: at most 64 MiB").at(32));
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

    /// Returns the contents of the file with all edits.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the contents of the file with all edits.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the state of the firmware's fault tolerant writes. While one is interrupted,
    /// variables may be missing, and the store cannot be edited.
    pub fn fault_tolerant_write(&self) -> FaultTolerantWrite {
        self.fault_tolerant_write
    }

    /// Returns the valid variables in the order of the store. Records with an invalid name are
    /// skipped.
    pub fn variables(&self) -> Vec<Variable<'_>> {
        let mut records = self.valid_records();
        records.sort_unstable_by_key(|record| record.start);
        records
            .iter()
            .filter_map(|record| self.at(record))
            .collect()
    }

    /// Returns a variable by name and vendor.
    pub fn variable(&self, name: &str, vendor: Guid) -> Option<Variable<'_>> {
        let record = self.live(name, vendor).valid?;
        self.at(&record)
    }

    /// Returns the usage of the store.
    pub fn usage(&self) -> Usage {
        let lens = self
            .valid_records()
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

    /// Returns the space that a record takes in the store.
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

    /// Returns the valid record of each variable: the first one with state "added" or, without one,
    /// the last one that is being deleted.
    pub(crate) fn valid_records(&self) -> Vec<Record> {
        let live = self.records.all.iter().filter(|record| record.is_live());
        let mut live: Vec<Record> = live.copied().collect();
        // The sort is stable, so copies of a variable stay in the order of the store.
        live.sort_by(|a, b| self.key(a).cmp(&self.key(b)));
        let copies = live.chunk_by(|a, b| self.key(a) == self.key(b));
        copies.filter_map(valid_of).collect()
    }

    /// Returns the key of a record: name and vendor.
    fn key(&self, record: &Record) -> (&[u8], Option<Guid>) {
        let header = record.header(&self.bytes, self.area.format);
        let name = record.name(&self.bytes, self.area.format);
        (name, header.map(|header| header.vendor))
    }

    /// Returns all live records of a variable.
    pub(crate) fn live(&self, name: &str, vendor: Guid) -> LiveRecords {
        let name = ucs2::to_bytes(name);
        let key = (&*name, Some(vendor));
        let mut live = LiveRecords::default();
        let records = self.records.all.iter().filter(|record| record.is_live());
        for record in records.filter(|record| self.key(record) == key) {
            live.add(*record);
        }
        live
    }
}

/// Returns the valid one among the copies of a variable.
fn valid_of(copies: &[Record]) -> Option<Record> {
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
pub(crate) struct LiveRecords {
    /// The valid record.
    pub(crate) valid: Option<Record>,
    /// The records that would become valid without it.
    pub(crate) others: Vec<Record>,
}

impl LiveRecords {
    fn add(&mut self, record: Record) {
        match self.valid {
            Some(valid) if valid.state == state::ADDED => self.others.push(record),
            _ => self.others.extend(self.valid.replace(record)),
        }
    }
}
