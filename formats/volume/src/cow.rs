//! Snapshots of the old style: a store of what was overwritten, in the origin or in the snapshot.
//!
//! Linux, `drivers/md/dm-snap-persistent.c`.

mod disk_exception;
mod disk_header;

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Result};

use crate::map::{Access, Area, Moved};

/// The chunks of a snapshot that its store has; the others are the origin's.
pub(crate) fn read<D: BlockRead + ?Sized>(store: &Area<D>) -> Result<Moved> {
    let access = Access::Refused("is a snapshot, and not written");
    let Some(chunk_bytes) = disk_header::chunk_bytes(store)? else {
        return Ok(Moved::new(NonZeroU64::MAX, Vec::new(), access));
    };
    let chunks = disk_exception::read_all(store, chunk_bytes)?;
    Ok(Moved::new(chunk_bytes, chunks, access))
}
