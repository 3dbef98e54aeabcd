//! Setting and deleting variables. The writes have the order of the firmware: if they are
//! interrupted, either the old variable or the new one is valid. edk2,
//! `VariableRuntimeDxe/Variable.c`.

use diskfs_block::bytes::{len_u64, put};
use diskfs_block::{Error, ErrorKind, Result};

use crate::record::{Record, Records};
use crate::store::LiveRecords;
use crate::variable_header::{HEADER_ALIGNMENT, STATE_OFFSET, VariableHeader, state};
use crate::{Attributes, Authentication, FaultTolerantWrite, Guid, VariableStore, ucs2};

/// A write of an edit to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The offset in the file.
    pub offset: u64,
    /// The bytes to write.
    pub bytes: Vec<u8>,
}

/// The result of an edit. The store in memory has been changed already. To update the file, apply
/// these writes, or write all bytes of the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// The writes in order. If they are interrupted at any byte, each variable has its old or its
    /// new value. Empty if nothing needs to change.
    pub writes: Vec<Write>,
    /// True if the store was full and has been reclaimed: deleted records were dropped, and the
    /// others moved together. The writes are then not safe to interrupt; write a new file instead.
    pub reclaimed: bool,
}

impl Edit {
    /// Appends another edit.
    pub(crate) fn then(mut self, mut other: Self) -> Self {
        self.writes.append(&mut other.writes);
        self.reclaimed |= other.reclaimed;
        self
    }
}

impl VariableStore {
    /// Sets or creates a variable, as the firmware does.
    ///
    /// # Errors
    /// `NoSpace`, with numbers, if the variable does not fit even after reclaiming. `Denied` for
    /// variables whose changes must be signed. `Invalid` for an empty name, for no data, and for
    /// attributes that are not allowed or differ from those of the variable. `Unsupported` while a
    /// write of the firmware is interrupted.
    pub fn set(
        &mut self,
        name: &str,
        vendor: Guid,
        attributes: Attributes,
        data: &[u8],
    ) -> Result<Edit> {
        check(name, attributes, data)?;
        let live = self.live_for_edit(name, vendor)?;
        let old = live
            .valid
            .and_then(|old| old.header(&self.bytes, self.area.format));
        if let Some(old) = old.filter(|old| old.attributes != attributes.0) {
            let reason = format!(
                "cannot change the attributes of {name}, which are {:#x}",
                old.attributes
            );
            return Err(Error::invalid(reason).with_hint("delete the variable first"));
        }
        if self.has_value(&live, data) {
            return Ok(Edit::default());
        }
        let record = self.record(name, vendor, attributes, data)?;
        if self.fits(record.len()) {
            return self.append(&live, &record);
        }
        self.reclaim(name, &live, &record)
    }

    /// Deletes a variable.
    ///
    /// # Errors
    /// `NotFound`; `Denied` and `Unsupported` as for [`set`](Self::set).
    pub fn delete(&mut self, name: &str, vendor: Guid) -> Result<Edit> {
        let live = self.live_for_edit(name, vendor)?;
        let Some(valid) = live.valid else {
            let reason = format!("no such variable: {name}");
            return Err(Error::new(ErrorKind::NotFound, reason));
        };
        let records = live.others.iter().chain([&valid]);
        let writes = records
            .map(|record| with_state(record, state::TO_DELETED))
            .collect();
        self.apply(writes)
    }

    /// Returns the live records of a variable. Fails if it cannot be edited.
    fn live_for_edit(&self, name: &str, vendor: Guid) -> Result<LiveRecords> {
        if self.fault_tolerant_write() == FaultTolerantWrite::Interrupted {
            let error = Error::unsupported(
                "cannot edit the variables: a write of the firmware was interrupted",
            );
            return Err(error.with_hint("start the machine once: the firmware completes the write"));
        }
        let live = self.live(name, vendor);
        let header = live
            .valid
            .and_then(|old| old.header(&self.bytes, self.area.format));
        if header.is_some_and(|header| Attributes(header.attributes).is_authenticated()) {
            let reason = format!("cannot change {name}: changes must be signed");
            return Err(Error::new(ErrorKind::Denied, reason));
        }
        Ok(live)
    }

    /// Returns true if the variable has this value already.
    fn has_value(&self, live: &LiveRecords, data: &[u8]) -> bool {
        let old = live
            .valid
            .map(|old| old.data(&self.bytes, self.area.format));
        old == Some(data) && live.others.is_empty()
    }

    /// Builds a new record, padded to the alignment.
    fn record(
        &self,
        name: &str,
        vendor: Guid,
        attributes: Attributes,
        data: &[u8],
    ) -> Result<Vec<u8>> {
        let name = ucs2::to_bytes(name);
        let size = |len: usize| {
            u32::try_from(len).map_err(|_| Error::invalid("variable is too large: at most 4 GiB"))
        };
        let header = VariableHeader {
            state: state::ERASED,
            attributes: attributes.0,
            authentication: Some(Authentication::default()),
            name_size: size(name.len())?,
            data_size: size(data.len())?,
            vendor,
        };
        let mut record = self.area.format.to_bytes(&header);
        record.extend(name);
        record.extend(data);
        record.resize(record.len().next_multiple_of(HEADER_ALIGNMENT), u8::MAX);
        Ok(record)
    }

    /// Returns true if `len` bytes fit after the last record, and the rest of the store is erased.
    fn fits(&self, len: usize) -> bool {
        let rest = self.bytes.get(self.records.end..self.area.range.end);
        let rest = rest.unwrap_or_default();
        len <= rest.len() && rest.iter().all(|&byte| byte == u8::MAX)
    }

    /// Appends a new record: marks the old one as being deleted, writes the new one with the header
    /// first, then deletes the old one.
    fn append(&mut self, live: &LiveRecords, record: &[u8]) -> Result<Edit> {
        let start = self.records.end;
        let header_bytes = self.area.format.header_bytes();
        let (header, rest) = record.split_at_checked(header_bytes).unwrap_or_default();
        let mut writes: Vec<Write> = live
            .others
            .iter()
            .map(|other| with_state(other, state::TO_DELETED))
            .collect();
        writes.extend(live.valid.map(|old| with_state(&old, state::TO_TRANSITION)));
        writes.push(write(start, header.to_vec()));
        writes.push(state_write(start, state::HEADER_VALID_ONLY));
        writes.push(write(start.saturating_add(header_bytes), rest.to_vec()));
        writes.push(state_write(start, state::ADDED));
        writes.extend(
            live.valid
                .map(|old| with_state(&old, state::TO_TRANSITION & state::TO_DELETED)),
        );
        self.apply(writes)
    }

    /// Reclaims the store: moves all valid records except the old one together, and appends the new
    /// one.
    fn reclaim(&mut self, name: &str, live: &LiveRecords, record: &[u8]) -> Result<Edit> {
        let mut records = self.valid_records();
        records.retain(|record| Some(*record) != live.valid);
        records.sort_unstable_by_key(|record| record.start);
        let total_bytes = self.area.range.len();
        let used: usize = records
            .iter()
            .map(|record| self.aligned_bytes(record))
            .sum();
        let free = total_bytes.saturating_sub(used);
        if record.len() > free {
            let needs = record.len();
            let reason = format!(
                "no space left: {name} needs {needs} bytes, and of {total_bytes} only {free} are free after reclaiming"
            );
            return Err(Error::new(ErrorKind::NoSpace, reason));
        }
        let kept = records
            .iter()
            .map(|record| record.whole(&self.bytes, self.area.format));
        let mut area = Vec::with_capacity(total_bytes);
        for record in kept.chain([record]) {
            let start = area.len();
            area.extend(record);
            put(
                &mut area,
                start.saturating_add(STATE_OFFSET),
                &[state::ADDED],
            );
            area.resize(area.len().next_multiple_of(HEADER_ALIGNMENT), u8::MAX);
        }
        area.resize(total_bytes, u8::MAX);
        let mut edit = self.apply(vec![write(self.area.range.start, area)])?;
        edit.reclaimed = true;
        Ok(edit)
    }

    /// Applies the writes in memory. Empty ones are dropped.
    fn apply(&mut self, mut writes: Vec<Write>) -> Result<Edit> {
        for write in &writes {
            put(
                &mut self.bytes,
                diskfs_block::bytes::index(write.offset),
                &write.bytes,
            );
        }
        writes.retain(|write| !write.bytes.is_empty());
        self.records = Records::read(&self.bytes, &self.area)?;
        Ok(Edit {
            writes,
            reclaimed: false,
        })
    }
}

fn check(name: &str, attributes: Attributes, data: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::invalid(format!("invalid variable name {name:?}")));
    }
    if data.is_empty() {
        return Err(Error::invalid(format!("missing data of {name}")));
    }
    if attributes.is_authenticated() {
        let reason = format!("cannot set {name}: changes must be signed");
        return Err(Error::new(ErrorKind::Denied, reason));
    }
    if !attributes.is_settable() {
        let reason = format!("{name} cannot have the attributes {:#x}", attributes.0);
        return Err(Error::invalid(reason));
    }
    Ok(())
}

fn write(offset: usize, bytes: Vec<u8>) -> Write {
    Write {
        offset: len_u64(offset),
        bytes,
    }
}

fn state_write(start: usize, state: u8) -> Write {
    write(start.saturating_add(STATE_OFFSET), vec![state])
}

/// Returns the write that clears bits in a record's state.
fn with_state(record: &Record, mask: u8) -> Write {
    state_write(record.start, record.state & mask)
}
