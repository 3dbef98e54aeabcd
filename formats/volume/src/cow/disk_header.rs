//! The header of a store, `disk_header`: its first chunk.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::map::Area;

/// The magic number, `SNAP_MAGIC`: `SnAp`.
const MAGIC: u32 = 0x7041_6e53;

/// The supported version, `SNAPSHOT_DISK_VERSION`.
const VERSION: u32 = 1;

const SECTOR_BYTES: u64 = 512;

/// The largest chunk in sectors. LVM makes chunks of 4 to 512 KiB; the kernel allows larger ones. A
/// chunk of exceptions is kept in memory while it is read.
const MAX_CHUNK_SECTORS: u32 = 2 << 10;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: U32,
    valid: U32,
    version: U32,
    chunk_size: U32,
}

/// Returns the chunk size of a store; `None` for a store that the kernel has never used.
pub(super) fn chunk_bytes<D: BlockRead + ?Sized>(store: &Area<D>) -> Result<Option<NonZeroU64>> {
    let mut bytes = [0; size_of::<Raw>()];
    store.read_at(0, &mut bytes)?;
    let raw = Raw::ref_from_bytes(&bytes);
    let raw = raw.map_err(|_| Error::corrupt("has a store with a missing header"))?;
    if raw.magic.get() == 0 {
        return Ok(None);
    }
    if raw.magic.get() != MAGIC {
        return Err(Error::corrupt(
            "has an invalid store: its header has no snapshot magic",
        ));
    }
    if raw.valid.get() == 0 {
        let reason = "is a snapshot that is invalid: its store was too small for the data that \
             was overwritten";
        return Err(Error::corrupt(reason));
    }
    let (version, sectors) = (raw.version.get(), raw.chunk_size.get());
    if version != VERSION {
        let reason = format!("is a snapshot of version {version}, which is not supported");
        return Err(Error::unsupported(reason));
    }
    let bytes = u64::from(sectors).checked_mul(SECTOR_BYTES);
    let fits = sectors.is_power_of_two() && sectors <= MAX_CHUNK_SECTORS;
    let bytes = bytes.filter(|_| fits).and_then(NonZeroU64::new);
    let wrong = || Error::corrupt(format!("has an invalid chunk size: {sectors} sectors"));
    bytes.ok_or_else(wrong).map(Some)
}
