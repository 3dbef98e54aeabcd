//! The format structure of a buffer item, `struct xfs_buf_log_format`.

use zerocopy::little_endian::{I64, U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{index, part};

/// The bytes of `struct xfs_buf_log_format` before its bitmap.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawBufferFormat {
    blf_type: U16,
    blf_size: U16,
    blf_flags: U16,
    blf_len: U16,
    blf_blkno: I64,
    blf_map_size: U32,
}

const HEADER_BYTES: usize = size_of::<RawBufferFormat>();
const _: () = assert!(HEADER_BYTES == 20);

/// The size of the parts of a buffer that are logged, `XFS_BLF_CHUNK`.
pub(super) const CHUNK_BYTES: usize = 128;
/// The largest length of a buffer in blocks of 512 bytes: `XFS_MAX_BLOCKSIZE`.
const LEN_MAX: u16 = 128;
/// The number of bits of `blf_flags` below the type of the buffer.
const TYPE_SHIFT: u32 = 11;

bitflags::bitflags! {
    /// The flags of a buffer item, in the low bits of `blf_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct BufferFlags: u16 {
        /// A cluster of inodes, of which only `di_next_unlinked` is replayed.
        const INODE_BUFFER = 0x01;
        /// The buffer was freed: earlier changes of it must not be replayed.
        const CANCEL = 0x02;
        const USER_QUOTA = 0x04;
        const PROJECT_QUOTA = 0x08;
        const GROUP_QUOTA = 0x10;
    }
}

impl BufferFlags {
    pub(super) const QUOTA: Self = Self::USER_QUOTA
        .union(Self::PROJECT_QUOTA)
        .union(Self::GROUP_QUOTA);
}

/// The place of a buffer on the device: the key of the table of cancelled buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BufferPlace {
    /// The first block of 512 bytes.
    pub(super) basic_block: u64,
    pub(super) len_basic_blocks: u32,
}

/// A valid format structure of a buffer item.
#[derive(Debug)]
pub(super) struct BufferFormat<'a> {
    pub(super) place: BufferPlace,
    pub(super) flags: BufferFlags,
    /// The type of the buffer's contents, `enum xfs_blft`.
    pub(super) contents: u16,
    /// The words of the bitmap of logged chunks.
    map: &'a [u8],
}

impl<'a> BufferFormat<'a> {
    /// Checks the format structure; `None` if it is invalid.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (raw, rest) = RawBufferFormat::read_from_prefix(bytes).ok()?;
        let map_len = index(raw.blf_map_size.get()).checked_mul(4)?;
        Some(Self {
            place: BufferPlace {
                basic_block: u64::try_from(raw.blf_blkno.get()).ok()?,
                len_basic_blocks: u32::from(raw.blf_len.get()),
            },
            flags: BufferFlags::from_bits_truncate(raw.blf_flags.get()),
            contents: raw.blf_flags.get().wrapping_shr(TYPE_SHIFT),
            map: part(rest, 0, map_len)?,
        })
    }

    /// Returns the length of the buffer in bytes; `None` if no buffer is as long.
    pub(super) fn len_bytes(&self) -> Option<usize> {
        let len = u16::try_from(self.place.len_basic_blocks).ok()?;
        (1..=LEN_MAX)
            .contains(&len)
            .then(|| usize::from(len).saturating_mul(512))
    }

    /// Returns the logged runs of the buffer: each the number of its first chunk, and the number of
    /// its chunks.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let map = self.map;
        let len = map.len().saturating_mul(8);
        let is_set = move |bit: usize| {
            let byte = map.get(bit.wrapping_shr(3)).copied().unwrap_or(0);
            byte.wrapping_shr(u32::try_from(bit & 7).unwrap_or(0)) & 1 != 0
        };
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = (next..len).find(|bit| is_set(*bit))?;
            let end = (start..len).find(|bit| !is_set(*bit)).unwrap_or(len);
            next = end;
            Some((start, end.saturating_sub(start)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(len: u16, words: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0x3c, 0x12, 2, 0, 1, 0x20];
        bytes.extend(len.to_le_bytes());
        bytes.extend(8_i64.to_le_bytes());
        bytes.extend(u32::try_from(words.len()).unwrap().to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn runs_cross_words() {
        let bytes = format(8, &[0xc000_0005, 0x0000_0003, 0]);
        let parsed = BufferFormat::parse(&bytes).unwrap();
        assert_eq!(parsed.contents, 4);
        assert_eq!(parsed.flags, BufferFlags::INODE_BUFFER);
        assert_eq!(parsed.len_bytes(), Some(4096));
        let runs: Vec<_> = parsed.runs().collect();
        assert_eq!(runs, [(0, 1), (2, 1), (30, 4)]);
    }

    #[test]
    fn invalid_ones_are_refused() {
        let bytes = format(8, &[1, 2]);
        assert!(BufferFormat::parse(&bytes[..27]).is_none());
        let len = |len| {
            let bytes = format(len, &[1]);
            BufferFormat::parse(&bytes).unwrap().len_bytes()
        };
        assert_eq!((len(0), len(128), len(129)), (None, Some(64 << 10), None));
        let mut negative = bytes.clone();
        negative[15] = 0x80;
        assert!(BufferFormat::parse(&negative).is_none());
    }
}
