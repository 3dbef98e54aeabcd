//! Snapshots of the old style (dm-snapshot): a store with the chunks that were overwritten, in the
//! origin or in the snapshot.
//!
//! Linux, `drivers/md/dm-snap-persistent.c`.

mod disk_exception;
mod disk_header;

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Result};

use crate::map::{Access, Area, Moved};

/// Returns the chunks of a snapshot that are in its store; the others are in the origin.
pub(crate) fn read<D: BlockRead + ?Sized>(store: &Area<D>) -> Result<Moved> {
    let access = Access::Refused("is a snapshot; writing to it is not supported");
    let Some(chunk_bytes) = disk_header::chunk_bytes(store)? else {
        return Ok(Moved::new(NonZeroU64::MAX, Vec::new(), access));
    };
    let chunks = disk_exception::read_all(store, chunk_bytes)?;
    Ok(Moved::new(chunk_bytes, chunks, access))
}
