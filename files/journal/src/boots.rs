//! The boots with entries in a file, read from the index of field values.

use std::sync::Arc;

use diskfs_block::{Error, Result};
use uuid::Uuid;

use crate::Entry;
use crate::chain::Chain;
use crate::data::{self, Raw};
use crate::field_hash_table::newest_value;
use crate::reader::Reader;

/// The maximum number of boots in a file. journald starts a new file long before.
const MAX_BOOTS: usize = 1 << 14;

/// A boot, with the times of its entries in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boot {
    /// The boot ID.
    pub id: Uuid,
    /// The time of its first entry, in microseconds since 1970.
    pub first_us: u64,
    /// The time of its last entry, in microseconds since 1970.
    pub last_us: u64,
}

pub(crate) fn read(reader: &Arc<Reader>) -> Result<Vec<Boot>> {
    let mut boots = Vec::new();
    let mut at = newest_value(reader, b"_BOOT_ID")?.unwrap_or(0);
    while at != 0 {
        if boots.len() >= MAX_BOOTS {
            let reason = format!("invalid journal file: more than {MAX_BOOTS} boots");
            return Err(Error::corrupt(reason).at(at));
        }
        let raw: Raw = reader.object(at)?;
        boots.extend(boot(reader, at, &raw)?);
        let older = raw.next_field_offset.get();
        // New values link to older ones, which are before them in the file.
        if older >= at {
            return Err(Error::corrupt(
                "invalid chain of values: it does not lead to an earlier object",
            )
            .at(at));
        }
        at = older;
    }
    boots.reverse();
    Ok(boots)
}

/// Returns the boot with this `_BOOT_ID` value; `None` if no entry has the value.
fn boot(reader: &Arc<Reader>, offset: u64, raw: &Raw) -> Result<Option<Boot>> {
    let Some(others) = raw.n_entries.get().checked_sub(1) else {
        return Ok(None);
    };
    let field = data::read(reader, offset, 64)?;
    let id = std::str::from_utf8(field.value()).ok();
    let Some(id) = id.and_then(|text| Uuid::try_parse(text).ok()) else {
        return Err(Error::corrupt("invalid boot ID").at(offset));
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
