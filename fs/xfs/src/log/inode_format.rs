//! The format structure of an inode item, `struct xfs_inode_log_format`.

use zerocopy::little_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::buffer_format::BufferPlace;

/// The bytes of `struct xfs_inode_log_format`.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawInodeFormat {
    ilf_start: RawStart,
    ilf_pad: U32,
    ilf_end: RawEnd,
}

/// The bytes of `struct xfs_inode_log_format_32`, which 32-bit kernels wrote.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInodeFormat32 {
    ilf_start: RawStart,
    ilf_end: RawEnd,
}

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawStart {
    ilf_type: U16,
    ilf_size: U16,
    ilf_fields: U32,
    ilf_asize: U16,
    ilf_dsize: U16,
}

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawEnd {
    ilf_ino: U64,
    ilf_u: [u8; 16],
    ilf_blkno: I64,
    ilf_len: I32,
    ilf_boffset: I32,
}

const _: () = assert!(size_of::<RawInodeFormat>() == 56);
const _: () = assert!(size_of::<RawInodeFormat32>() == 52);

/// The largest length of a buffer of inodes in blocks of 512 bytes: `XFS_MAX_BLOCKSIZE`.
const LEN_MAX: u32 = 128;

bitflags::bitflags! {
    /// The parts of an inode that are logged, `XFS_ILOG_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct LoggedParts: u32 {
        const CORE = 0x001;
        /// The data fork's contents.
        const DATA = 0x002;
        const DATA_EXTENTS = 0x004;
        const DATA_ROOT = 0x008;
        /// The number of a device file.
        const DEVICE = 0x010;
        /// The attribute fork's contents.
        const ATTRIBUTES = 0x040;
        const ATTRIBUTE_EXTENTS = 0x080;
        const ATTRIBUTE_ROOT = 0x100;
        /// The blocks of the data fork's tree have changed their owner.
        const DATA_OWNER = 0x200;
        const ATTRIBUTE_OWNER = 0x400;
    }
}

impl LoggedParts {
    /// The parts of the data fork, of which one is logged at most.
    pub(super) const DATA_FORK: Self = Self::DATA.union(Self::DATA_EXTENTS).union(Self::DATA_ROOT);
    /// The parts of the attribute fork, of which one is logged at most.
    pub(super) const ATTRIBUTE_FORK: Self = Self::ATTRIBUTES
        .union(Self::ATTRIBUTE_EXTENTS)
        .union(Self::ATTRIBUTE_ROOT);
}

/// A valid format structure of an inode item.
#[derive(Debug, Clone, Copy)]
pub(super) struct InodeFormat {
    pub(super) inode: u64,
    pub(super) parts: LoggedParts,
    /// The number of a device file.
    pub(super) device: [u8; 4],
    /// The buffer that contains the inode.
    pub(super) place: BufferPlace,
    /// The offset of the inode in the buffer in bytes.
    pub(super) offset: u32,
}

impl InodeFormat {
    /// Checks the format structure; `None` if it is invalid.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (start, end) = if bytes.len() == size_of::<RawInodeFormat32>() {
            let raw = RawInodeFormat32::read_from_bytes(bytes).ok()?;
            (raw.ilf_start, raw.ilf_end)
        } else {
            let (raw, _) = RawInodeFormat::read_from_prefix(bytes).ok()?;
            (raw.ilf_start, raw.ilf_end)
        };
        let len = u32::try_from(end.ilf_len.get()).ok()?;
        let [a, b, c, d, ..] = end.ilf_u;
        (1..=LEN_MAX).contains(&len).then_some(())?;
        Some(Self {
            inode: end.ilf_ino.get(),
            parts: LoggedParts::from_bits_truncate(start.ilf_fields.get()),
            device: [a, b, c, d],
            place: BufferPlace {
                basic_block: u64::try_from(end.ilf_blkno.get()).ok()?,
                len_basic_blocks: len,
            },
            offset: u32::try_from(end.ilf_boffset.get()).ok()?,
        })
    }

    /// Returns the byte of the device at which the inode lies; `None` if it exceeds its buffer.
    pub(super) fn byte(&self, inode_bytes: u32) -> Option<u64> {
        let end = self.offset.checked_add(inode_bytes)?;
        if end > self.place.len_basic_blocks.checked_mul(512)? {
            return None;
        }
        let start = self.place.basic_block.checked_mul(512)?;
        start.checked_add(u64::from(self.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(pad: usize) -> Vec<u8> {
        let mut bytes = vec![0x3b, 0x12, 3, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        bytes.resize(12 + pad, 0);
        bytes.extend(131_u64.to_le_bytes());
        bytes.extend([9; 16]);
        bytes.extend(64_i64.to_le_bytes());
        bytes.extend(32_i32.to_le_bytes());
        bytes.extend(1536_i32.to_le_bytes());
        bytes
    }

    #[test]
    fn both_sizes_are_read() {
        for pad in [0, 4] {
            let parsed = InodeFormat::parse(&format(pad)).unwrap();
            assert_eq!(parsed.inode, 131);
            assert_eq!(parsed.parts, LoggedParts::CORE | LoggedParts::DATA_EXTENTS);
            assert_eq!(parsed.byte(512), Some(64 * 512 + 1536));
            assert_eq!(parsed.byte(16 << 10), None);
        }
        assert!(InodeFormat::parse(&format(4)[..51]).is_none());
    }
}
