//! `struct dx_root`: block 0 of an indexed directory. A reader without support for indexes sees an
//! ordinary directory block, in which the entry of `..` covers everything after it.

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::BlockSize;

use super::hash::Algorithm;

/// `struct dx_root` up to its entries, as it is stored.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDxRoot {
    dot_inode: U32,
    dot_rec_len: U16,
    dot_name: [u8; 6],
    dotdot_inode: U32,
    dotdot_rec_len: U16,
    dotdot_name: [u8; 6],
    reserved_zero: U32,
    hash_version: u8,
    info_length: u8,
    indirect_levels: u8,
    unused_flags: u8,
}

/// The size of the entry of `.`, and so the offset of that of `..`.
const DOT_BYTES: u16 = 12;
/// The size of `struct dx_root_info`.
const INFO_BYTES: u8 = 8;
/// The offset of the root's table.
pub(super) const TABLE_OFFSET: usize = size_of::<RawDxRoot>();

/// The reason why block 0 is not a valid root of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum RootError {
    #[error("the block is too short")]
    Short,
    #[error("`.` and `..` have {dot} and {dotdot} bytes, expected 12 and the rest of the block")]
    DotEntries { dot: u16, dotdot: u16 },
    #[error("info_length is {0}, expected 8")]
    InfoLength(u8),
    #[error("reserved_zero or unused_flags is set")]
    Reserved,
    #[error("unknown hash version {0}")]
    Hash(u8),
    #[error("{found} levels of index blocks, at most {max}")]
    Levels { found: u8, max: u8 },
}

/// The root's properties of the whole index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DxRoot {
    /// The hash function, or `None` for `SipHash`, which needs the directory's encryption key.
    pub(super) algorithm: Option<Algorithm>,
    /// The number of levels of index blocks between the root and the leaves.
    pub(super) levels: u8,
}

impl DxRoot {
    /// The number of `DX_HASH_SIPHASH`.
    const SIPHASH: u8 = 6;

    /// Parses and checks block 0. `levels_max` is the maximum number of levels besides the root.
    pub(super) fn parse(block: &[u8], size: BlockSize, levels_max: u8) -> Result<Self, RootError> {
        let (raw, _) = RawDxRoot::ref_from_prefix(block).map_err(|_| RootError::Short)?;
        let (dot, dotdot) = (raw.dot_rec_len.get(), raw.dotdot_rec_len.get());
        let rest = size.bytes().checked_sub(u32::from(DOT_BYTES));
        if dot != DOT_BYTES || Some(u32::from(dotdot)) != rest {
            return Err(RootError::DotEntries { dot, dotdot });
        }
        if raw.info_length != INFO_BYTES {
            return Err(RootError::InfoLength(raw.info_length));
        }
        if raw.reserved_zero.get() != 0 || raw.unused_flags & 1 != 0 {
            return Err(RootError::Reserved);
        }
        if raw.indirect_levels > levels_max {
            let found = raw.indirect_levels;
            return Err(RootError::Levels {
                found,
                max: levels_max,
            });
        }
        Ok(Self {
            algorithm: algorithm(raw.hash_version)?,
            levels: raw.indirect_levels,
        })
    }
}

/// Makes block 0 of a directory, which begins with the entries of `.` and `..`, a root without
/// index levels below it. The bytes after those two entries are dropped, and the table is not
/// filled yet.
pub(super) fn put_start(block: &mut [u8], size: BlockSize, algorithm: Algorithm) {
    let Ok((raw, rest)) = RawDxRoot::mut_from_prefix(block) else {
        return;
    };
    rest.fill(0);
    // 65,524 for blocks of 64 KiB.
    let behind_dot = size.bytes().saturating_sub(u32::from(DOT_BYTES));
    raw.dotdot_rec_len
        .set(u16::try_from(behind_dot).unwrap_or(u16::MAX));
    raw.reserved_zero.set(0);
    raw.hash_version = match algorithm {
        Algorithm::Legacy => 0,
        Algorithm::HalfMd4 => 1,
        Algorithm::Tea => 2,
    };
    raw.info_length = INFO_BYTES;
    raw.indirect_levels = 0;
    raw.unused_flags = 0;
}

/// Sets the number of levels of index blocks between the root and the leaves.
pub(super) fn set_levels(block: &mut [u8], levels: u8) {
    if let Ok((raw, _)) = RawDxRoot::mut_from_prefix(block) {
        raw.indirect_levels = levels;
    }
}

fn algorithm(hash_version: u8) -> Result<Option<Algorithm>, RootError> {
    match hash_version {
        0 => Ok(Some(Algorithm::Legacy)),
        1 => Ok(Some(Algorithm::HalfMd4)),
        2 => Ok(Some(Algorithm::Tea)),
        DxRoot::SIPHASH => Ok(None),
        // 3 to 5, the unsigned variants, exist in memory only: the superblock's flags select them.
        other => Err(RootError::Hash(other)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the bytes before a root's table.
    pub(crate) fn root(block_size: u16, hash_version: u8, levels: u8) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0, 2, 0, 0, 0];
        bytes.extend((block_size - 12).to_le_bytes());
        bytes.extend([2, 2, b'.', b'.', 0, 0, 0, 0, 0, 0]);
        bytes.extend([hash_version, 8, levels, 0]);
        bytes
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        let size = BlockSize::from_log(2).unwrap();
        let parse = |bytes: &[u8]| DxRoot::parse(bytes, size, 1);
        let good = root(4096, 1, 1);
        assert_eq!(good.len(), TABLE_OFFSET);
        let want = DxRoot {
            algorithm: Some(Algorithm::HalfMd4),
            levels: 1,
        };
        assert_eq!(parse(&good), Ok(want));
        assert_eq!(parse(&root(4096, 6, 0)).map(|r| r.algorithm), Ok(None));
        assert_eq!(parse(&root(4096, 5, 0)), Err(RootError::Hash(5)));
        assert_eq!(
            parse(&root(4096, 1, 2)),
            Err(RootError::Levels { found: 2, max: 1 })
        );
        assert_eq!(parse(&good[..31]), Err(RootError::Short));
    }

    #[test]
    fn a_directory_block_becomes_a_root() {
        let mut bytes = root(1024, 0, 0);
        bytes[16..18].copy_from_slice(&12u16.to_le_bytes());
        bytes[24..].fill(0xff);
        bytes.resize(1024, 0xff);
        put_start(&mut bytes, BlockSize::from_log(0).unwrap(), Algorithm::Tea);
        set_levels(&mut bytes, 2);
        assert_eq!(bytes[..TABLE_OFFSET], root(1024, 2, 2));
        assert_eq!(bytes[TABLE_OFFSET..], [0; 1024 - TABLE_OFFSET]);
    }

    #[test]
    fn refuses_what_is_no_root() {
        let size = BlockSize::from_log(2).unwrap();
        for (at, value) in [(4, 16), (16, 0), (24, 1), (29, 12), (31, 1)] {
            let mut bytes = root(4096, 1, 0);
            bytes[at] = value;
            assert!(DxRoot::parse(&bytes, size, 1).is_err(), "byte {at}");
        }
    }
}
