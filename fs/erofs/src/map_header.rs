//! The header of the map of a compressed inode: `struct z_erofs_map_header`.

use std::sync::Mutex;

use diskfs_block::Weight;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::place::Place;

/// The size of the header. The indexes follow, with full ones after another 8 bytes.
pub(crate) const HEADER_BYTES: u64 = 8;

const ADVISE_COMPACTED_2B: u16 = 0x01;
const ADVISE_EXTENTS: u16 = 0x01;
const ADVISE_BIG_PCLUSTER_1: u16 = 0x02;
const ADVISE_BIG_PCLUSTER_2: u16 = 0x04;
const ADVISE_INLINE_PCLUSTER: u16 = 0x08;
const ADVISE_INTERLACED_PCLUSTER: u16 = 0x10;
const ADVISE_FRAGMENT_PCLUSTER: u16 = 0x20;

/// The bit of `h_clusterbits` for a file that is a fragment as a whole.
const WHOLE_FRAGMENT: u8 = 0x80;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of Linux")]
struct RawMapHeader {
    /// The offset of the fragment, the size of inline data (its high half) or the number of
    /// extents.
    h_union: U32,
    h_advise: U16,
    h_algorithmtype: u8,
    h_clusterbits: u8,
}

const _: () = assert!(size_of::<RawMapHeader>() == 8);

/// The header of the map of a compressed inode.
#[derive(Debug)]
pub(crate) struct MapHeader {
    advise: u16,
    is_compact: bool,
    union: u32,
    /// The logarithm of the size of a logical cluster.
    pub(crate) cluster_bits: u32,
    /// The algorithms of the two kinds of heads.
    pub(crate) algorithms: [u8; 2],
    /// The number of extent records, if there are records instead of indexes.
    pub(crate) extent_records: Option<u64>,
    pub(crate) tail: Tail,
    /// The record at which the last lookup stopped, and the sum of the lengths before it, for
    /// records without addresses.
    pub(crate) last_record: Mutex<(u64, u64)>,
}

/// The special storage of the end of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tail {
    /// The end is compressed like the rest.
    Ordinary,
    /// The whole file is stored at this offset of the packed inode.
    WholeFragment(u64),
    /// The extent that begins in this cluster is stored at this offset of the packed inode.
    Fragment { head: u64, offset: u64 },
    /// The extent that begins in this cluster is stored after the indexes.
    Inline { head: u64, place: Place, len: u16 },
    /// The last extent record leads to the packed inode.
    FragmentRecord,
}

impl Weight for MapHeader {
    fn weight_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl MapHeader {
    /// Parses the header of an inode; the tail is ordinary, or that of a whole fragment or of a
    /// record.
    pub(crate) fn parse(
        bytes: [u8; 8],
        is_compact: bool,
        block_bits: u32,
        place: Place,
    ) -> Result<Self> {
        let raw = RawMapHeader::read_from_bytes(&bytes)
            .map_err(|_| corrupt("invalid map header: wrong size", place.at))?;
        let whole = raw.h_clusterbits & WHOLE_FRAGMENT != 0;
        let advise = if whole { 0 } else { raw.h_advise.get() };
        let mut header = Self {
            advise,
            is_compact,
            union: raw.h_union.get(),
            cluster_bits: block_bits.saturating_add((raw.h_clusterbits & 0x0f).into()),
            algorithms: [
                raw.h_algorithmtype & 0x0f,
                raw.h_algorithmtype.wrapping_shr(4),
            ],
            extent_records: None,
            tail: Tail::Ordinary,
            last_record: Mutex::new((0, 0)),
        };
        if whole {
            let offset = u64::from_le_bytes(bytes) & !(1 << 63);
            header.tail = Tail::WholeFragment(offset);
        } else if !is_compact && advise & ADVISE_EXTENTS != 0 {
            let high = u64::from(u16::from_le_bytes([raw.h_algorithmtype, raw.h_clusterbits]));
            header.extent_records = Some(u64::from(raw.h_union.get()) | high.wrapping_shl(32));
            if header.has_fragment() {
                header.tail = Tail::FragmentRecord;
            }
        } else {
            header.check(place)?;
        }
        Ok(header)
    }

    /// Returns true if there are indexes of clusters.
    pub(crate) fn is_indexed(&self) -> bool {
        self.extent_records.is_none() && !matches!(self.tail, Tail::WholeFragment(_))
    }

    /// Returns true if the end of the file is in the packed inode.
    pub(crate) fn has_fragment(&self) -> bool {
        self.has(ADVISE_FRAGMENT_PCLUSTER)
    }

    /// Returns the length of the data after the indexes; 0 for none.
    pub(crate) fn inline_bytes(&self) -> u16 {
        let len = u16::try_from(self.union.wrapping_shr(16)).unwrap_or_default();
        if self.has(ADVISE_INLINE_PCLUSTER) {
            len
        } else {
            0
        }
    }

    /// Returns the low half of the offset of a fragment, and whether there is a high half, in the
    /// index of the fragment's head.
    pub(crate) fn fragment_offset(&self) -> (u32, bool) {
        (self.union, !self.is_compact)
    }

    fn check(&self, place: Place) -> Result<()> {
        let big = [ADVISE_BIG_PCLUSTER_1, ADVISE_BIG_PCLUSTER_2].map(|bit| self.has(bit));
        if self.is_compact && big[0] != big[1] {
            let reason = "invalid map header: large clusters of one kind in compact indexes";
            return Err(corrupt(reason, place.at));
        }
        Ok(())
    }

    fn has(&self, bit: u16) -> bool {
        self.advise & bit != 0
    }

    /// Returns true if some of the compact indexes have 2 bytes.
    pub(crate) fn has_short_indexes(&self) -> bool {
        self.is_compact && self.has(ADVISE_COMPACTED_2B)
    }

    /// Returns true if clusters with a head of the first kind may have several blocks.
    pub(crate) fn has_large_clusters(&self) -> bool {
        self.has(ADVISE_BIG_PCLUSTER_1)
    }

    /// Returns true if those with a head of the second kind, or plain ones, may.
    pub(crate) fn has_large_second_clusters(&self) -> bool {
        self.has(ADVISE_BIG_PCLUSTER_2)
    }

    /// Returns true if plain clusters are rotated.
    pub(crate) fn is_interlaced(&self) -> bool {
        self.has(ADVISE_INTERLACED_PCLUSTER)
    }

    /// Returns the size of an extent record: 4 to 32 bytes.
    pub(crate) fn record_bytes(&self) -> u64 {
        4_u64.wrapping_shl(u32::from(self.advise.wrapping_shr(1) & 3))
    }
}
