//! Setting and deleting variables, in the order in which the firmware does it: whenever the writes end, the
//! old variable is there or the new one. edk2, `VariableRuntimeDxe/Variable.c`.

use diskfs_block::bytes::{len_u64, put};
use diskfs_block::{Error, ErrorKind, Result};

use crate::record::{Record, Records};
use crate::store::Live;
use crate::variable_header::{HEADER_ALIGNMENT, STATE_OFFSET, VariableHeader, state};
use crate::{Attributes, Authentication, FaultTolerantWrite, Guid, VariableStore, ucs2};

/// Bytes that an edit puts into the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// What an edit changes. It is done in the store, and to be done in the file: by these writes, or with all bytes of
/// the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// In this order they may end at any byte, and each variable is there as it was or as it shall be.
    /// None when all is so already.
    pub writes: Vec<Write>,
    /// The store was full: what was deleted is thrown away, and the rest moved together. Then the writes may
    /// not end anywhere: whoever wants that writes a new file.
    pub reclaimed: bool,
}

impl Edit {
    /// Another one behind it.
    pub(crate) fn then(mut self, mut other: Self) -> Self {
        self.writes.append(&mut other.writes);
        self.reclaimed |= other.reclaimed;
        self
    }
}

impl VariableStore {
    /// Sets a variable, or makes it, as the firmware would.
    ///
    /// # Errors
    /// `NoSpace`, with numbers, when it does not fit even if all that is deleted is thrown away. `Denied` for
    /// variables that only who signs may change. `Invalid` for an empty name, for no data, and for attributes
    /// that no variable here may have or that this one does not have. `Unsupported` while a write of the
    /// firmware is interrupted.
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
            .counting
            .and_then(|old| old.header(&self.bytes, self.area.format));
        if let Some(old) = old.filter(|old| old.attributes != attributes.0) {
            let reason = format!("{name} has other attributes: {:#x}", old.attributes);
            return Err(Error::invalid(reason).with_hint("delete it first"));
        }
        if self.says(&live, data) {
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
    /// `NotFound`; `Denied` and `Unsupported` as [`set`](Self::set).
    pub fn delete(&mut self, name: &str, vendor: Guid) -> Result<Edit> {
        let live = self.live_for_edit(name, vendor)?;
        let Some(counting) = live.counting else {
            let reason = format!("there is no variable {name}");
            return Err(Error::new(ErrorKind::NotFound, reason));
        };
        let records = live.others.iter().chain([&counting]);
        let writes = records
            .map(|record| with_state(record, state::TO_DELETED))
            .collect();
        self.apply(writes)
    }

    /// The live records of a variable that may be edited.
    fn live_for_edit(&self, name: &str, vendor: Guid) -> Result<Live> {
        if self.fault_tolerant_write() == FaultTolerantWrite::Interrupted {
            let error = Error::unsupported("a write of the firmware's was interrupted");
            return Err(error.with_hint("start the machine once: the firmware settles it"));
        }
        let live = self.live(name, vendor);
        let header = live
            .counting
            .and_then(|old| old.header(&self.bytes, self.area.format));
        if header.is_some_and(|header| Attributes(header.attributes).is_authenticated()) {
            let reason = format!("only who signs may change {name}");
            return Err(Error::new(ErrorKind::Denied, reason));
        }
        Ok(live)
    }

    /// Nothing is to be done.
    fn says(&self, live: &Live, data: &[u8]) -> bool {
        let old = live
            .counting
            .map(|old| old.data(&self.bytes, self.area.format));
        old == Some(data) && live.others.is_empty()
    }

    /// A record that is not there yet, aligned.
    fn record(
        &self,
        name: &str,
        vendor: Guid,
        attributes: Attributes,
        data: &[u8],
    ) -> Result<Vec<u8>> {
        let name = ucs2::to_bytes(name);
        let size = |len: usize| u32::try_from(len).map_err(|_| Error::invalid("more than 4 GiB"));
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

    /// There is so much erased flash behind the last record, and nothing else.
    fn fits(&self, len: usize) -> bool {
        let rest = self.bytes.get(self.records.end..self.area.range.end);
        let rest = rest.unwrap_or_default();
        len <= rest.len() && rest.iter().all(|&byte| byte == u8::MAX)
    }

    /// The old one is about to be deleted, the new one is written, header first, the old one is deleted.
    fn append(&mut self, live: &Live, record: &[u8]) -> Result<Edit> {
        let start = self.records.end;
        let header_bytes = self.area.format.header_bytes();
        let (header, rest) = record.split_at_checked(header_bytes).unwrap_or_default();
        let mut writes: Vec<Write> = live
            .others
            .iter()
            .map(|other| with_state(other, state::TO_DELETED))
            .collect();
        writes.extend(
            live.counting
                .map(|old| with_state(&old, state::TO_TRANSITION)),
        );
        writes.push(write(start, header.to_vec()));
        writes.push(state_write(start, state::HEADER_VALID_ONLY));
        writes.push(write(start.saturating_add(header_bytes), rest.to_vec()));
        writes.push(state_write(start, state::ADDED));
        writes.extend(
            live.counting
                .map(|old| with_state(&old, state::TO_TRANSITION & state::TO_DELETED)),
        );
        self.apply(writes)
    }

    /// Moves all that counts together, without the old one, and the new one behind it.
    fn reclaim(&mut self, name: &str, live: &Live, record: &[u8]) -> Result<Edit> {
        let mut counting = self.counting();
        counting.retain(|record| Some(*record) != live.counting);
        counting.sort_unstable_by_key(|record| record.start);
        let total_bytes = self.area.range.len();
        let used: usize = counting
            .iter()
            .map(|record| self.aligned_bytes(record))
            .sum();
        let free = total_bytes.saturating_sub(used);
        if record.len() > free {
            let needs = record.len();
            let reason = format!(
                "{name} needs {needs} bytes, and of {total_bytes} only {free} are free when the store is reclaimed"
            );
            return Err(Error::new(ErrorKind::NoSpace, reason));
        }
        let kept = counting
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

    /// Does the writes, but those that change nothing.
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
        return Err(Error::invalid(format!("{name:?} is no name of a variable")));
    }
    if data.is_empty() {
        return Err(Error::invalid(format!("{name} without data would be none")));
    }
    if attributes.is_authenticated() {
        let reason = format!("only who signs may set {name}");
        return Err(Error::new(ErrorKind::Denied, reason));
    }
    if !attributes.is_settable() {
        let reason = format!("{name} may not have the attributes {:#x}", attributes.0);
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

/// A record with bits of its state taken away.
fn with_state(record: &Record, mask: u8) -> Write {
    state_write(record.start, record.state & mask)
}
