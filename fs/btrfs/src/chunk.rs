//! The mapping of a range of logical addresses to devices (`struct btrfs_chunk`).

mod profile;

use std::ops::Range;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

pub(crate) use self::profile::{Allocation, BlockGroupType, Profile};
use crate::bytes::index;
use crate::logical::Logical;

/// The only stripe length that Linux accepts (`BTRFS_STRIPE_LEN`).
pub(crate) const STRIPE_BYTES: u64 = 64 << 10;

/// The longest chunk: Linux makes none of more than 10 GiB per device, and 2^16 devices are the
/// limit of a chunk.
const MAX_LEN_BYTES: u64 = 1 << 50;

/// A chunk as it is stored, which its stripes follow.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawChunk {
    length: U64,
    owner: U64,
    stripe_len: U64,
    r#type: U64,
    io_align: U32,
    io_width: U32,
    sector_size: U32,
    num_stripes: U16,
    sub_stripes: U16,
}

/// A stripe as it is stored (`struct btrfs_stripe`).
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawStripe {
    devid: U64,
    offset: U64,
    dev_uuid: [u8; 16],
}

const _: () = assert!(size_of::<RawChunk>() == 48 && size_of::<RawStripe>() == 32);

/// A part of a chunk on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stripe {
    pub(crate) devid: u64,
    /// The start of the part, in bytes of the device.
    pub(crate) offset: u64,
    pub(crate) dev_uuid: [u8; 16],
}

/// A chunk whose fields are in range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start: Logical,
    pub(crate) len_bytes: u64,
    pub(crate) block_group: BlockGroupType,
    pub(crate) profile: Profile,
    pub(crate) stripes: Vec<Stripe>,
}

impl Chunk {
    /// Parses a chunk for the addresses from `start` on. Returns it with the bytes that follow.
    ///
    /// # Errors
    /// The reason why the chunk is invalid.
    pub(crate) fn parse(bytes: &[u8], start: Logical) -> Result<(Self, &[u8]), String> {
        let (raw, rest) =
            RawChunk::ref_from_prefix(bytes).map_err(|_| "it is too short".to_owned())?;
        let count = index(raw.num_stripes.get());
        let (stripes, rest) = <[RawStripe]>::ref_from_prefix_with_elems(rest, count)
            .map_err(|_| format!("its {count} stripes do not fit"))?;
        if raw.stripe_len.get() != STRIPE_BYTES {
            return Err(format!("stripe length {}", raw.stripe_len.get()));
        }
        let len_bytes = raw.length.get();
        if len_bytes == 0 || len_bytes > MAX_LEN_BYTES || start.0.checked_add(len_bytes).is_none() {
            return Err(format!("length {len_bytes}"));
        }
        let bits = raw.r#type.get();
        let profile = Profile::parse(bits, count, raw.sub_stripes.get())?;
        let chunk = Self {
            start,
            len_bytes,
            block_group: BlockGroupType(bits),
            profile,
            stripes: stripes.iter().map(Stripe::from).collect(),
        };
        Ok((chunk, rest))
    }

    /// Returns the logical addresses of the chunk.
    pub(crate) fn range(&self) -> Range<Logical> {
        self.start..self.start.plus(self.len_bytes)
    }
}

impl From<&RawStripe> for Stripe {
    fn from(raw: &RawStripe) -> Self {
        Self {
            devid: raw.devid.get(),
            offset: raw.offset.get(),
            dev_uuid: raw.dev_uuid,
        }
    }
}
