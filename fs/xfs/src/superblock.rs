//! The superblock: the geometry and the features of the filesystem.
//!
//! Source: "XFS Algorithms & Data Structures", section "Superblocks".

mod address;
mod check;
mod raw;
#[cfg(test)]
pub(crate) mod tests;

use diskfs_block::{BlockRead, read_within};
use zerocopy::FromBytes;

pub(crate) use self::address::{FsBlock, basic_block};
pub(crate) use self::raw::RawSuperblock;

use crate::bytes::{index, len_u64};
use crate::checksum;
use crate::error::{Error, Result, corrupt, device_failed, unsupported};
use crate::features::{Features, Features2, Incompatible, ReadOnlyCompatible, VersionFlags};

/// `XFSB`, at the start of the device.
pub(crate) const MAGIC: [u8; 4] = *b"XFSB";
/// The number of inodes of a chunk, `XFS_INODES_PER_CHUNK`.
pub(crate) const INODES_PER_CHUNK: u32 = 64;
/// The size of the blocks in which the format counts device addresses, `BBSIZE`.
pub(crate) const BASIC_BLOCK_BYTES: u64 = 512;

/// The largest size of a sector, `XFS_MAX_SECTORSIZE`.
const SECTOR_BYTES_MAX: usize = 32 << 10;

/// A valid superblock.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    pub(crate) features: Features,
    /// The size of a block: a power of two from 512 bytes to 64 KiB.
    pub(crate) block_bytes: u32,
    /// The binary logarithm of the block size.
    pub(crate) block_bits: u32,
    /// The size of a sector: a power of two from 512 bytes to 32 KiB.
    pub(crate) sector_bytes: u32,
    /// The size of an inode: a power of two from 256 to 2048 bytes.
    pub(crate) inode_bytes: u16,
    /// The binary logarithm of the number of inodes in a block.
    pub(crate) inodes_per_block_bits: u32,
    /// The number of blocks of the data device.
    pub(crate) blocks: u64,
    /// The number of blocks of an allocation group; the last one may be shorter.
    pub(crate) ag_blocks: u32,
    /// The number of bits of a block number that count blocks of an allocation group.
    pub(crate) ag_block_bits: u32,
    pub(crate) ag_count: u32,
    /// The size of a block of a directory: a block, or a power-of-two multiple up to 64 KiB.
    pub(crate) directory_block_bytes: u32,
    pub(crate) root_inode: u64,
    /// The first block of the internal log; `None` if the log is on another device.
    pub(crate) log_start: Option<FsBlock>,
    /// The place in the log at which the superblock was last written: cycle and block; 0 in
    /// version 4.
    pub(crate) lsn: u64,
    /// The length of the log.
    pub(crate) log_blocks: u32,
    /// The size of a sector of the log's device.
    pub(crate) log_sector_bytes: u32,
    /// The stripe unit of the log in bytes; 0 or 1 without one.
    pub(crate) log_stripe_bytes: u32,
    /// The number of blocks of the real-time device; 0 without one.
    pub(crate) realtime_blocks: u64,
    /// The alignment of chunks of inodes in blocks; 0 or 1 without one.
    pub(crate) inode_alignment_blocks: u32,
    /// The percentage of the blocks that may contain inodes; 0 without a limit.
    pub(crate) inode_percentage: u8,
    /// The number of allocated inodes.
    pub(crate) inode_count: u64,
    /// The number of allocated inodes that are free.
    pub(crate) free_inodes: u64,
    pub(crate) free_blocks: u64,
    /// The UUID that tools show.
    pub(crate) uuid: [u8; 16],
    /// The UUID that metadata contains: the one with which the filesystem was made.
    pub(crate) meta_uuid: [u8; 16],
    label: [u8; 12],
}

impl Superblock {
    /// Reads and checks the superblock at the start of the device.
    ///
    /// # Errors
    /// `Corrupt` for an invalid superblock, `Unsupported` for features that the driver does not
    /// read, `Io`.
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Self> {
        let read = |len| read_within(device, 0, len).map_err(device_failed);
        let first = read(raw::SIZE_BYTES)?;
        let raw = first.as_deref().and_then(parse_raw).ok_or_else(too_short)?;
        let sector = usize::from(raw.sb_sectsize.get());
        let len = sector.clamp(raw::SIZE_BYTES, SECTOR_BYTES_MAX);
        let bytes = read(len)?.ok_or_else(too_short)?;
        Self::parse(&bytes, device.size_bytes())
    }

    /// Checks the superblock in `bytes`, which are its whole sector.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub(crate) fn parse(bytes: &[u8], device_bytes: u64) -> Result<Self> {
        let raw = parse_raw(bytes).ok_or_else(too_short)?;
        if raw.sb_magicnum != MAGIC {
            return Err(corrupt("not an XFS filesystem: wrong magic", 0));
        }
        let features = features(&raw)?;
        if features.has_checksums() {
            let sector = bytes.get(..usize::from(raw.sb_sectsize.get()));
            let sector = sector.ok_or_else(|| field("sb_sectsize", raw.sb_sectsize.get()))?;
            checksum::verify(sector, raw::CRC_OFFSET, "superblock", 0)?;
        }
        check::check_state(&raw, features)?;
        features.check_readable()?;
        let superblock = Self::of_fields(&raw, features)?;
        superblock.check_geometry(&raw)?;
        superblock.check_device(device_bytes)?;
        Ok(superblock)
    }

    fn of_fields(raw: &RawSuperblock, features: Features) -> Result<Self> {
        let block_bits = log2(
            "sb_blocksize",
            raw.sb_blocksize.get(),
            raw.sb_blocklog,
            9..=16,
        )?;
        let sector = u32::from(raw.sb_sectsize.get());
        log2("sb_sectsize", sector, raw.sb_sectlog, 9..=15)?;
        let inode = u32::from(raw.sb_inodesize.get());
        log2("sb_inodesize", inode, raw.sb_inodelog, 8..=11)?;
        let per_block = u32::from(raw.sb_inopblock.get());
        let per_block_bits = log2("sb_inopblock", per_block, raw.sb_inopblog, 1..=8)?;
        let directory_bits = block_bits.saturating_add(u32::from(raw.sb_dirblklog));
        if directory_bits > 16 {
            return Err(field("sb_dirblklog", raw.sb_dirblklog));
        }
        let log_sector = match raw.sb_logsectsize.get() {
            0 => 512,
            other => u32::from(other),
        };
        Ok(Self {
            features,
            block_bytes: raw.sb_blocksize.get(),
            block_bits,
            sector_bytes: sector,
            inode_bytes: raw.sb_inodesize.get(),
            inodes_per_block_bits: per_block_bits,
            blocks: raw.sb_dblocks.get(),
            ag_blocks: raw.sb_agblocks.get(),
            ag_block_bits: u32::from(raw.sb_agblklog),
            ag_count: raw.sb_agcount.get(),
            directory_block_bytes: 1_u32.wrapping_shl(directory_bits),
            root_inode: raw.sb_rootino.get(),
            log_start: Some(FsBlock(raw.sb_logstart.get())).filter(|start| start.0 != 0),
            lsn: if features.has_checksums() {
                raw.sb_lsn.get()
            } else {
                0
            },
            log_blocks: raw.sb_logblocks.get(),
            log_sector_bytes: log_sector,
            log_stripe_bytes: raw.sb_logsunit.get(),
            realtime_blocks: raw.sb_rblocks.get(),
            inode_alignment_blocks: raw.sb_inoalignmt.get(),
            inode_percentage: raw.sb_imax_pct,
            inode_count: raw.sb_icount.get(),
            free_inodes: raw.sb_ifree.get(),
            free_blocks: raw.sb_fdblocks.get(),
            uuid: raw.sb_uuid,
            meta_uuid: meta_uuid(raw, features),
            label: raw.sb_fname,
        })
    }

    /// Returns the label, without padding.
    pub(crate) fn label(&self) -> &[u8] {
        let end = self.label.iter().position(|byte| *byte == 0);
        self.label
            .get(..end.unwrap_or(self.label.len()))
            .unwrap_or_default()
    }

    /// Returns true if metadata has checksums (version 5).
    pub(crate) fn has_checksums(&self) -> bool {
        self.features.has_checksums()
    }

    /// Returns the size of a block as a length in memory.
    pub(crate) fn block_len(&self) -> usize {
        index(self.block_bytes)
    }

    /// Returns the number of bytes of `blocks` blocks; saturates.
    pub(crate) fn bytes_of(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(u64::from(self.block_bytes))
    }
}

fn parse_raw(bytes: &[u8]) -> Option<RawSuperblock> {
    RawSuperblock::read_from_prefix(bytes)
        .ok()
        .map(|(raw, _)| raw)
}

fn too_short() -> Error {
    corrupt(
        "not an XFS filesystem: the device is too short for a superblock",
        0,
    )
}

/// Returns the error for an invalid field.
fn field(name: &'static str, value: impl Into<u64>) -> Error {
    let value: u64 = value.into();
    corrupt(format!("invalid superblock: {name} is {value}"), 0)
}

/// Returns the binary logarithm of a size, which must be stored as `stored`, too.
fn log2(
    name: &'static str,
    size: u32,
    stored: u8,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32> {
    let bits = size.trailing_zeros();
    if size.is_power_of_two() && range.contains(&bits) && bits == u32::from(stored) {
        return Ok(bits);
    }
    Err(field(name, size))
}

fn features(raw: &RawSuperblock) -> Result<Features> {
    let word = raw.sb_versionnum.get();
    let version = word & 0xf;
    if !(4..=5).contains(&version) {
        return Err(unsupported(format!(
            "unsupported XFS version {version}: expected 4 or 5"
        )));
    }
    let flags = VersionFlags::from_bits_truncate(word);
    // Some versions of mkfs.xfs wrote the word to a wrong place; the kernel joins both.
    let features2 = if flags.contains(VersionFlags::MOREBITS) {
        raw.sb_features2.get() | raw.sb_bad_features2.get()
    } else {
        0
    };
    let of_version_5 = |word: u32| if version == 5 { word } else { 0 };
    Ok(Features {
        version,
        flags,
        features2: Features2::from_bits_retain(features2),
        read_only_compatible: ReadOnlyCompatible::from_bits_retain(of_version_5(
            raw.sb_features_ro_compat.get(),
        )),
        incompatible: Incompatible::from_bits_retain(of_version_5(raw.sb_features_incompat.get())),
        log_incompatible: of_version_5(raw.sb_features_log_incompat.get()),
    })
}

fn meta_uuid(raw: &RawSuperblock, features: Features) -> [u8; 16] {
    if features.has(Incompatible::META_UUID) {
        raw.sb_meta_uuid
    } else {
        raw.sb_uuid
    }
}

/// Returns true if the device contains XFS, judged by the magic of its superblock.
///
/// # Errors
/// Fails if the device cannot be read.
pub(crate) fn probe(device: &dyn BlockRead) -> diskfs_block::Result<bool> {
    let bytes = read_within(device, 0, MAGIC.len())?;
    Ok(bytes.is_some_and(|bytes| len_u64(bytes.len()) == 4 && bytes == MAGIC))
}
