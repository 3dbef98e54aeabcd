//! `disk_header`: the first chunk of a store.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::map::Area;

/// `SNAP_MAGIC`: `SnAp`.
const MAGIC: u32 = 0x7041_6e53;

/// `SNAPSHOT_DISK_VERSION`.
const VERSION: u32 = 1;

const SECTOR_BYTES: u64 = 512;

/// LVM makes chunks of 4 to 512 KiB; the kernel takes more. A chunk of exceptions is kept while it
/// is read.
const MAX_CHUNK_SECTORS: u32 = 2 << 10;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: U32,
    valid: U32,
    version: U32,
    chunk_size: U32,
}

/// How large a store's chunks are; `None` for a store that the kernel has never used.
pub(super) fn chunk_bytes<D: BlockRead + ?Sized>(store: &Area<D>) -> Result<Option<NonZeroU64>> {
    let mut bytes = [0; size_of::<Raw>()];
    store.read_at(0, &mut bytes)?;
    let raw = Raw::ref_from_bytes(&bytes);
    let raw = raw.map_err(|_| Error::corrupt("has a store without a header"))?;
    if raw.magic.get() == 0 {
        return Ok(None);
    }
    if raw.magic.get() != MAGIC {
        return Err(Error::corrupt("has a store that is none of a snapshot"));
    }
    if raw.valid.get() == 0 {
        let reason = "is a snapshot that is invalid: its store was too small for what was written";
        return Err(Error::corrupt(reason));
    }
    let (version, sectors) = (raw.version.get(), raw.chunk_size.get());
    if version != VERSION {
        let reason = format!("is a snapshot of version {version}, which is not read");
        return Err(Error::unsupported(reason));
    }
    let bytes = u64::from(sectors).checked_mul(SECTOR_BYTES);
    let fits = sectors.is_power_of_two() && sectors <= MAX_CHUNK_SECTORS;
    let bytes = bytes.filter(|_| fits).and_then(NonZeroU64::new);
    let wrong = || Error::corrupt(format!("is a snapshot in chunks of {sectors} sectors"));
    bytes.ok_or_else(wrong).map(Some)
}
