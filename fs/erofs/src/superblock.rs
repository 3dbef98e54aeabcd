//! The superblock: `struct erofs_super_block`, 1024 bytes after the start.

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, read_within};
use diskfs_vfs::InodeNumber;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::features::{
    COMPAT_SB_CHKSUM, Features, INCOMPAT_48BIT, INCOMPAT_COMPR_CFGS, INCOMPAT_DEVICE_TABLE,
    INCOMPAT_METABOX,
};

/// The place of the superblock.
pub(crate) const SUPERBLOCK_OFFSET: u64 = 1024;

const MAGIC: u32 = 0xe0f5_e1e2;

/// The minimum and maximum of `blkszbits`: 512 bytes and 64 KiB.
const BLOCK_BITS: std::ops::RangeInclusive<u8> = 9..=16;

/// The bit of a number of an inode that says that it is stored in the metabox.
pub(crate) const METABOX_BIT: u64 = 1 << 63;

/// The bits of a number above and below that of the metabox.
const HIGH_HALF: u64 = 0xffff_ffff_0000_0000;
const BELOW_FLAG: u64 = 0x7fff_ffff;

/// All algorithms: LZ4, LZMA, DEFLATE, zstd.
const ALGORITHMS: u16 = 0x0f;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    magic: U32,
    checksum: U32,
    feature_compat: U32,
    blkszbits: u8,
    sb_extslots: u8,
    rootnid_2b_or_blocks_hi: U16,
    inos: U64,
    epoch: U64,
    fixed_nsec: U32,
    blocks_lo: U32,
    meta_blkaddr: U32,
    xattr_blkaddr: U32,
    uuid: [u8; 16],
    volume_name: [u8; 16],
    feature_incompat: U32,
    available_compr_algs: U16,
    extra_devices: U16,
    devt_slotoff: U16,
    dirblkbits: u8,
    xattr_prefix_count: u8,
    xattr_prefix_start: U32,
    packed_nid: U64,
    xattr_filter_reserved: u8,
    ishare_xattr_prefix_id: u8,
    reserved: [u8; 2],
    build_time: U32,
    rootnid_8b: U64,
    reserved2: U64,
    metabox_nid: U64,
    reserved3: U64,
}

const _: () = assert!(size_of::<RawSuperblock>() == 144);

/// The checked superblock.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    pub(crate) features: Features,
    /// The logarithm of the block size: 9 to 16.
    pub(crate) block_bits: u32,
    /// The address of the root directory's inode.
    pub(crate) root: u64,
    pub(crate) inodes: u64,
    /// The time that those of compact inodes count from, and their nanoseconds.
    pub(crate) epoch: u64,
    pub(crate) fixed_nanoseconds: u32,
    /// The number of blocks of the primary device.
    pub(crate) blocks: u64,
    /// The first block of the inodes.
    pub(crate) meta_block: u32,
    /// The first block of the shared attributes.
    pub(crate) xattr_block: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) volume_name: [u8; 16],
    /// The algorithms that may be used, as bits.
    pub(crate) algorithms: u16,
    /// The number of devices besides the primary one.
    pub(crate) extra_devices: u16,
    /// The place of the device table.
    pub(crate) device_table: u64,
    pub(crate) xattr_prefixes: u8,
    /// The place of the prefixes, in their inode or on the device.
    pub(crate) xattr_prefix_start: u64,
    /// The inode that has the fragments of files.
    pub(crate) packed: Option<u64>,
    /// The inode that has metadata.
    pub(crate) metabox: Option<u64>,
}

impl Superblock {
    /// Reads and checks the superblock of a device.
    ///
    /// # Errors
    /// `Unsupported` for unknown features; `Corrupt` for invalid fields or a wrong checksum.
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Self> {
        let len = size_of::<RawSuperblock>();
        let bytes = read_within(device, SUPERBLOCK_OFFSET, len).map_err(device_failed)?;
        let bytes = bytes.ok_or_else(|| corrupt("no erofs: the device is too small", 0))?;
        let raw = RawSuperblock::read_from_bytes(&bytes)
            .map_err(|_| corrupt("invalid superblock: wrong size", SUPERBLOCK_OFFSET))?;
        let magic = raw.magic.get();
        if magic != MAGIC {
            let reason = format!("no erofs: magic {magic:#010x}, expected {MAGIC:#010x}");
            return Err(corrupt(reason, SUPERBLOCK_OFFSET));
        }
        if !BLOCK_BITS.contains(&raw.blkszbits) {
            let reason = format!(
                "invalid block size 2^{}: expected 2^9 to 2^16",
                raw.blkszbits
            );
            return Err(corrupt(reason, SUPERBLOCK_OFFSET));
        }
        let features = Features::checked(raw.feature_compat.get(), raw.feature_incompat.get())?;
        if features.has_compat(COMPAT_SB_CHKSUM) {
            check_sum(device, &raw)?;
        }
        Self::check(&raw, features)
    }

    fn check(raw: &RawSuperblock, features: Features) -> Result<Self> {
        if raw.dirblkbits != 0 {
            let reason = "erofs with directory blocks of several blocks is not supported";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let short = raw.rootnid_2b_or_blocks_hi.get();
        let (root, blocks_hi) = match raw.rootnid_8b.get() {
            root if root != 0 && features.has_incompat(INCOMPAT_48BIT) => (root, short),
            _ => (short.into(), 0),
        };
        let has_devices = features.has_incompat(INCOMPAT_DEVICE_TABLE);
        let optional = |nid: u64| Some(nid).filter(|nid| *nid != 0);
        let has_metabox = features.has_incompat(INCOMPAT_METABOX);
        let superblock = Self {
            features,
            block_bits: raw.blkszbits.into(),
            root,
            inodes: raw.inos.get(),
            epoch: raw.epoch.get(),
            fixed_nanoseconds: raw.fixed_nsec.get(),
            blocks: u64::from(raw.blocks_lo.get()) | u64::from(blocks_hi).wrapping_shl(32),
            meta_block: raw.meta_blkaddr.get(),
            xattr_block: raw.xattr_blkaddr.get(),
            uuid: raw.uuid,
            volume_name: raw.volume_name,
            algorithms: algorithms(raw, features)?,
            extra_devices: if has_devices {
                raw.extra_devices.get()
            } else {
                0
            },
            device_table: u64::from(raw.devt_slotoff.get()).saturating_mul(128),
            xattr_prefixes: raw.xattr_prefix_count,
            xattr_prefix_start: u64::from(raw.xattr_prefix_start.get()).saturating_mul(4),
            packed: optional(raw.packed_nid.get()),
            metabox: has_metabox.then(|| raw.metabox_nid.get()),
        };
        let inner = [superblock.packed, superblock.metabox];
        if inner
            .into_iter()
            .flatten()
            .any(|nid| nid & METABOX_BIT != 0)
        {
            let reason = "invalid superblock: an inner inode in the metabox";
            return Err(corrupt(reason, SUPERBLOCK_OFFSET));
        }
        Ok(superblock)
    }

    /// Returns the inode number of an address of an inode: the address, except that the bit of the
    /// metabox is moved to bit 31 if there is one, as on Linux. Numbers stay small that way.
    pub(crate) fn number_of(&self, nid: u64) -> InodeNumber {
        if self.metabox.is_none() {
            return InodeNumber(nid);
        }
        let high = nid.wrapping_shl(1) & HIGH_HALF;
        let flag = nid.wrapping_shr(63).wrapping_shl(31);
        InodeNumber(high | (nid & BELOW_FLAG) | flag)
    }

    /// Returns the address of an inode with a number.
    pub(crate) fn nid_of(&self, number: InodeNumber) -> u64 {
        if self.metabox.is_none() {
            return number.0;
        }
        let high = (number.0 & HIGH_HALF).wrapping_shr(1);
        let flag = number.0.wrapping_shr(31).wrapping_shl(63);
        high | (number.0 & BELOW_FLAG) | flag
    }

    /// Returns the size of a block in bytes.
    pub(crate) fn block_bytes(&self) -> u64 {
        1_u64.wrapping_shl(self.block_bits)
    }

    /// Returns the place of a block on the device.
    pub(crate) fn byte_of(&self, block: u64) -> u64 {
        block.saturating_mul(self.block_bytes())
    }
}

/// Returns the algorithms that the filesystem may use.
fn algorithms(raw: &RawSuperblock, features: Features) -> Result<u16> {
    if !features.has_incompat(INCOMPAT_COMPR_CFGS) {
        // The field is the maximum distance of LZ4 then.
        return Ok(1);
    }
    let algorithms = raw.available_compr_algs.get();
    let unknown = algorithms & !ALGORITHMS;
    if unknown != 0 {
        let reason = format!("erofs with unknown algorithms {unknown:#x} is not supported");
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    Ok(algorithms)
}

/// Verifies the checksum: that of the rest of the first block, with a checksum of zero.
fn check_sum(device: &dyn BlockRead, raw: &RawSuperblock) -> Result<()> {
    let block = 1_u64.wrapping_shl(raw.blkszbits.into());
    let len = if block > SUPERBLOCK_OFFSET {
        block.saturating_sub(SUPERBLOCK_OFFSET)
    } else {
        block
    };
    let bytes = read_within(device, SUPERBLOCK_OFFSET, index(len)).map_err(device_failed)?;
    let cut = || {
        corrupt(
            "invalid superblock: the device is too small",
            SUPERBLOCK_OFFSET,
        )
    };
    let mut bytes = bytes.ok_or_else(cut)?;
    diskfs_block::bytes::put(&mut bytes, 4, &[0; 4]);
    // The stored checksum lacks the final inversion.
    let sum = !crc32c::crc32c(&bytes);
    let stored = raw.checksum.get();
    if sum != stored {
        let reason = format!("invalid superblock: checksum {sum:#x}, stored {stored:#x}");
        return Err(corrupt(reason, SUPERBLOCK_OFFSET));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn numbers_lead_back_to_addresses() {
        let features = Features::checked(0, INCOMPAT_METABOX).unwrap();
        let raw = RawSuperblock::new_zeroed();
        let superblock = Superblock::check(&raw, features).unwrap();
        for nid in [0, 5, 1 << 30, 1 << 31, 1 << 40, 1 << 61] {
            for nid in [nid, nid | METABOX_BIT] {
                assert_eq!(superblock.nid_of(superblock.number_of(nid)), nid);
            }
        }
        assert_eq!(superblock.number_of(METABOX_BIT | 5).0, 0x8000_0005);
    }
}
