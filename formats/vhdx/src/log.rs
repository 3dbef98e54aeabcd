//! The log: MS-VHDX 2.3. It is replayed in memory.

mod data_sector;
mod descriptor;
mod entry;
mod entry_header;
mod ring;
mod sequence;

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, Overlay, Result};

use crate::extended::Extended;
use crate::header::LogPlace;
use crate::log::descriptor::Descriptor;
use crate::log::entry::Entry;
use crate::log::ring::Ring;
use crate::log::sequence::Sequence;

/// The size of a sector of the log in bytes.
pub(crate) const SECTOR_BYTES: usize = 4096;

/// Replays the log at `place` into memory. Returns the file with the changes over it.
pub(crate) fn replay(file: &Arc<dyn BlockRead>, place: LogPlace) -> Result<Arc<dyn BlockRead>> {
    let ring = Ring::read(file.as_ref(), place)?;
    let Some(sequence) = Sequence::find(&ring)? else {
        let reason = "log of the VHDX has no valid entries; the image was not closed";
        return Err(Error::corrupt(reason).at(place.at));
    };
    let head = sequence.head();
    if file.size_bytes() < head.flushed_bytes {
        let (now, then) = (file.size_bytes(), head.flushed_bytes);
        let reason = format!("file has {now} bytes and had {then}: it was truncated");
        return Err(Error::corrupt(reason).at(now));
    }
    let extended = Arc::new(Extended {
        file: Arc::clone(file),
        size_bytes: sequence.end_bytes(&ring)?.max(file.size_bytes()),
    });
    // A data sector takes one block of the overlay, so the log itself bounds the memory.
    let replayed = Overlay::in_memory(extended, place.len_bytes);
    for entry in sequence.entries() {
        apply(&ring, entry, &replayed)?;
    }
    Ok(Arc::new(replayed))
}

fn apply(ring: &Ring, entry: &Entry, replayed: &dyn BlockWrite) -> Result<()> {
    for descriptor in entry.descriptors(ring)? {
        match descriptor {
            Descriptor::Zero { at, len_bytes } => replayed.write_zeroes(at, len_bytes)?,
            Descriptor::Data { at, update } => replayed.write_at(at, &update)?,
        }
    }
    Ok(())
}
