//! The boots that a file has entries of, by the index of its values.

use std::sync::Arc;

use diskfs_block::{Error, Result};
use uuid::Uuid;

use crate::Entry;
use crate::chain::Chain;
use crate::data::{self, Raw};
use crate::field_hash_table::newest_value;
use crate::reader::Reader;

/// More boots than a file has entries of: journald begins a new file long before.
const MAX_BOOTS: usize = 1 << 14;

/// The entries of a boot in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boot {
    /// Its ID.
    pub id: Uuid,
    /// When its first entry was logged, in microseconds since 1970.
    pub first_us: u64,
    /// When its last entry was logged, in microseconds since 1970.
    pub last_us: u64,
}

pub(crate) fn read(reader: &Arc<Reader>) -> Result<Vec<Boot>> {
    let mut boots = Vec::new();
    let mut at = newest_value(reader, b"_BOOT_ID")?.unwrap_or(0);
    while at != 0 {
        if boots.len() >= MAX_BOOTS {
            let reason = format!("more than {MAX_BOOTS} boots in a file");
            return Err(Error::corrupt(reason).at(at));
        }
        let raw: Raw = reader.object(at)?;
        boots.extend(boot(reader, at, &raw)?);
        let older = raw.next_field_offset.get();
        // A new value leads to the one before it.
        if older >= at {
            return Err(Error::corrupt("a chain of values that goes back").at(at));
        }
        at = older;
    }
    boots.reverse();
    Ok(boots)
}

/// The boot of a value, unless it is of no entry.
fn boot(reader: &Arc<Reader>, offset: u64, raw: &Raw) -> Result<Option<Boot>> {
    let Some(others) = raw.n_entries.get().checked_sub(1) else {
        return Ok(None);
    };
    let field = data::read(reader, offset, 64)?;
    let id = std::str::from_utf8(field.value()).ok();
    let Some(id) = id.and_then(|text| Uuid::try_parse(text).ok()) else {
        return Err(Error::corrupt("a boot without an ID").at(offset));
    };
    let first = Entry::read(reader, raw.entry_offset.get())?;
    let chain = Chain::read(reader, raw.entry_array_offset.get(), others);
    let last = match chain.count.checked_sub(1) {
        Some(last) => Entry::read(reader, chain.item(reader, last)?)?,
        None => first.clone(),
    };
    Ok(Some(Boot {
        id,
        first_us: first.realtime_us,
        last_us: last.realtime_us,
    }))
}
