//! Contents in chunks: `struct erofs_inode_chunk_index`, or block addresses of 4 bytes.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::inode::Inode;
use crate::mapped::{Mapped, Source};
use crate::volume::Volume;

/// The bits of the format: the size of a chunk, indexes, addresses of 48 bits.
const BLOCK_BITS: u32 = 0x1f;
const INDEXES: u32 = 0x20;
const LONG_ADDRESSES: u32 = 0x40;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawChunkIndex {
    startblk_hi: U16,
    device_id: U16,
    startblk_lo: U32,
}

/// Returns the chunk that contains the byte `offset`.
pub(crate) fn map(volume: &Volume, inode: &Inode, offset: u64) -> Result<Mapped> {
    let format = inode.chunk_format();
    if format & !(BLOCK_BITS | INDEXES | LONG_ADDRESSES) != 0 {
        let reason = format!("chunks of the unknown format {format:#x} are not supported");
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    let bits = volume
        .superblock
        .block_bits
        .saturating_add(format & BLOCK_BITS);
    let number = offset.wrapping_shr(bits);
    let start = number.wrapping_shl(bits);
    let len = 1_u64
        .wrapping_shl(bits)
        .min(inode.size_bytes.saturating_sub(start));
    Ok(Mapped {
        start,
        len,
        source: if format & INDEXES == 0 {
            address(volume, inode, number)?
        } else {
            index(volume, inode, number, format & LONG_ADDRESSES != 0)?
        },
    })
}

fn address(volume: &Volume, inode: &Inode, number: u64) -> Result<Source> {
    let place = inode.body().aligned(4).after(number.saturating_mul(4));
    let block = u32::from_le_bytes(volume.metadata(place)?);
    Ok(if block == u32::MAX {
        Source::Hole
    } else {
        Source::Stored {
            device: 0,
            at: volume.superblock.byte_of(block.into()),
        }
    })
}

fn index(volume: &Volume, inode: &Inode, number: u64, is_long: bool) -> Result<Source> {
    let place = inode.body().aligned(8).after(number.saturating_mul(8));
    let bytes: [u8; 8] = volume.metadata(place)?;
    let raw = RawChunkIndex::read_from_bytes(&bytes)
        .map_err(|_| corrupt("invalid chunk index: wrong size", place.at))?;
    let mask = if is_long {
        (1 << 48) - 1
    } else {
        u64::from(u32::MAX)
    };
    let high = u64::from(raw.startblk_hi.get()).wrapping_shl(32);
    let block = (u64::from(raw.startblk_lo.get()) | high) & mask;
    Ok(if block == mask {
        Source::Hole
    } else {
        Source::Stored {
            device: device_number(volume, raw.device_id.get()),
            at: volume.superblock.byte_of(block),
        }
    })
}

/// Returns the number of a device: as many bits as are needed for all.
fn device_number(volume: &Volume, stored: u16) -> u16 {
    let count = volume.superblock.extra_devices;
    let mask = count
        .checked_add(1)
        .and_then(u16::checked_next_power_of_two)
        .map_or(u16::MAX, |power| power.wrapping_sub(1));
    stored & mask
}
