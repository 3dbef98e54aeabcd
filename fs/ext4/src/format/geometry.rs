//! The geometry of a new filesystem: the sizes and numbers of blocks, groups and inodes.

mod groups;

use super::feature_set;
use super::options::{BlockCount, FormatOptions};
use super::parse::RESERVED_PPM_MAX;
use super::profile::Profile;
use crate::block::BlockSize;
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Features, Incompatible, ReadOnlyCompatible};

/// The maximum number of blocks without `64bit`.
const BLOCKS_MAX_32_BIT: u64 = (1 << 32) - 1;
/// The size to which the size of a filesystem is rounded down: mke2fs uses the page size.
const SIZE_UNIT_BYTES: u64 = 4096;
/// The size of a group descriptor without `64bit`, `EXT2_MIN_DESC_SIZE`.
const DESCRIPTOR_BYTES: u16 = 32;
/// The size of a group descriptor with `64bit`, `EXT2_MIN_DESC_SIZE_64BIT`.
const DESCRIPTOR_BYTES_64_BIT: u16 = 64;
/// The maximum size of a group descriptor, `EXT2_MAX_DESC_SIZE`.
const DESCRIPTOR_BYTES_MAX: u16 = 1024;

/// The geometry of a new filesystem.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    pub(super) features: Features,
    pub(super) block_size: BlockSize,
    /// The number of blocks in a cluster, as a power of two.
    pub(super) cluster_bits: u32,
    pub(super) first_data_block: u32,
    pub(super) blocks_count: u64,
    pub(super) reserved_blocks: u64,
    pub(super) blocks_per_group: u32,
    pub(super) groups: u32,
    pub(super) inodes_per_group: u32,
    pub(super) inode_bytes: u16,
    pub(super) descriptor_bytes: u16,
    pub(super) reserved_gdt_blocks: u16,
    /// The groups with a backup superblock, with `sparse_super2`.
    pub(super) backup_groups: [u32; 2],
    /// The number of groups in a flexible group, as a power of two.
    pub(super) flex_bits: u32,
}

/// The wanted sizes, before they are fitted to whole groups.
#[derive(Debug)]
struct Wanted {
    features: Features,
    block_size: BlockSize,
    cluster_bits: u32,
    /// The number of blocks of the device.
    blocks: u64,
    reserved_blocks: u64,
    inodes: u64,
    inode_bytes: u16,
    descriptor_bytes: u16,
    blocks_per_group: u32,
    reserved_gdt_blocks: Option<u16>,
    backup_groups: [u32; 2],
}

impl Geometry {
    /// Chooses the geometry for a device of `device_bytes`.
    ///
    /// # Errors
    /// `Invalid` for options that contradict each other or the size of the device.
    pub(super) fn choose(options: &FormatOptions, device_bytes: u64) -> Result<Self> {
        let features = feature_set::choose(options)?;
        let wanted = Wanted::new(options, features, device_bytes)?;
        let flex_bits = flex_bits(options, features)?;
        let mut geometry = groups::fit(&wanted)?;
        geometry.flex_bits = flex_bits;
        Ok(geometry)
    }

    /// Returns the number of blocks in a full inode table of a group.
    pub(super) fn inode_table_blocks(&self) -> u64 {
        let bytes = u64::from(self.inodes_per_group).saturating_mul(u64::from(self.inode_bytes));
        self.block_size.blocks_for(bytes)
    }

    /// Returns a size of the options as a number of blocks.
    pub(super) fn blocks_of(&self, count: BlockCount) -> u64 {
        blocks_of(count, self.block_size)
    }
}

/// Returns a size of the options as a number of blocks.
fn blocks_of(count: BlockCount, block_size: BlockSize) -> u64 {
    match count {
        BlockCount::Blocks(blocks) => blocks,
        BlockCount::Bytes(bytes) => bytes.wrapping_shr(block_size.bits()),
    }
}

impl Wanted {
    fn new(options: &FormatOptions, features: Features, device_bytes: u64) -> Result<Self> {
        let mut features = features;
        let profile = Profile::choose(options, device_bytes);
        let block_size = block_size(options.block_bytes.unwrap_or(profile.block_bytes))?;
        let blocks =
            (device_bytes & !SIZE_UNIT_BYTES.wrapping_sub(1)).wrapping_shr(block_size.bits());
        check_blocks(&mut features, blocks, block_size)?;
        let cluster_bits = cluster_bits(options, features, block_size)?;
        let inode_bytes = inode_bytes(options, features, profile, block_size)?;
        let cluster_bytes = u64::from(block_size.bytes()).wrapping_shl(cluster_bits);
        let ratio = bytes_per_inode(options, profile, cluster_bytes)?;
        let inodes = inodes(options, features, block_size.bytes_of(blocks), ratio)?;
        check_inode_tables(inodes, inode_bytes, block_size.bytes_of(blocks))?;
        let mut wanted = Self {
            features,
            block_size,
            cluster_bits,
            blocks,
            reserved_blocks: reserved_blocks(options, blocks)?,
            inodes,
            inode_bytes,
            descriptor_bytes: descriptor_bytes(options, features)?,
            blocks_per_group: blocks_per_group(options, block_size, cluster_bits)?,
            reserved_gdt_blocks: None,
            backup_groups: backup_groups(options, features)?,
        };
        if let Some(resize) = options.extended.resize {
            wanted.reserved_gdt_blocks =
                wanted.reserved_gdt_blocks(blocks_of(resize, block_size))?;
        }
        Ok(wanted)
    }

    /// Returns the number of reserved blocks of the descriptor table that a later size of
    /// `resize_blocks` needs.
    fn reserved_gdt_blocks(&self, resize_blocks: u64) -> Result<Option<u16>> {
        if resize_blocks <= self.blocks {
            let blocks = self.blocks;
            return Err(invalid(format!(
                "invalid value of the option `resize`: {resize_blocks} blocks are not more than the \
                 filesystem's {blocks}"
            )));
        }
        let table_blocks = |blocks: u64| {
            let groups = blocks.div_ceil(u64::from(self.blocks_per_group.max(1)));
            let bytes = groups.saturating_mul(u64::from(self.descriptor_bytes));
            self.block_size.blocks_for(bytes)
        };
        let more = table_blocks(resize_blocks).saturating_sub(table_blocks(self.blocks));
        let max = u64::from(self.block_size.bytes()).wrapping_div(4);
        Ok(u16::try_from(more.min(max)).ok().filter(|&more| more > 0))
    }
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, reason.into())
}

fn block_size(bytes: u32) -> Result<BlockSize> {
    let log = bytes.trailing_zeros().checked_sub(10);
    let size = log.and_then(BlockSize::from_log);
    let size = size.filter(|size| size.bytes() == bytes);
    size.ok_or_else(|| {
        invalid(format!(
            "invalid block size {bytes}: expected a power of two from 1024 to 65536"
        ))
    })
}

/// Checks the number of blocks, and clears a feature that a large filesystem cannot have.
fn check_blocks(features: &mut Features, blocks: u64, size: BlockSize) -> Result<()> {
    if blocks == 0 {
        return Err(invalid(
            "the device is too small: it has not even one block",
        ));
    }
    if blocks <= BLOCKS_MAX_32_BIT {
        return Ok(());
    }
    if !features.has(Incompatible::SIXTY_FOUR_BIT) {
        let bytes = size.bytes();
        let reason = format!(
            "the device is too large: {blocks} blocks of {bytes} bytes, at most {BLOCKS_MAX_32_BIT} \
             without the feature `64bit`"
        );
        return Err(invalid(reason).with_hint("use larger blocks, or set `64bit` and `extent`"));
    }
    // The resize inode has block numbers of 32 bits.
    features.compatible.remove(Compatible::RESIZE_INODE);
    Ok(())
}

fn cluster_bits(options: &FormatOptions, features: Features, size: BlockSize) -> Result<u32> {
    const DEFAULT_BITS: u32 = 4;
    /// `EXT2_MAX_CLUSTER_LOG_SIZE`, 512 MiB.
    const LOG_MAX: u32 = 29;
    let bigalloc = features.has(ReadOnlyCompatible::BIGALLOC);
    match options.cluster_bytes {
        None if bigalloc => Ok(DEFAULT_BITS),
        None => Ok(0),
        Some(_) if !bigalloc => Err(invalid("a cluster size requires the feature `bigalloc`")),
        Some(bytes) => {
            let log = bytes.trailing_zeros();
            let is_valid = bytes.is_power_of_two() && (size.bits()..=LOG_MAX).contains(&log);
            let bits = log.checked_sub(size.bits()).filter(|_| is_valid);
            bits.ok_or_else(|| {
                invalid(format!(
                    "invalid cluster size {bytes}: expected a power of two from the block size to \
                     512 MiB"
                ))
            })
        }
    }
}

fn inode_bytes(
    options: &FormatOptions,
    features: Features,
    profile: Profile,
    size: BlockSize,
) -> Result<u16> {
    const MIN: u16 = 128;
    let bytes = options.inode_bytes.unwrap_or(profile.inode_bytes);
    if bytes < MIN || !bytes.is_power_of_two() || u32::from(bytes) > size.bytes() {
        return Err(invalid(format!(
            "invalid inode size {bytes}: expected a power of two from 128 to the block size"
        )));
    }
    for (set, name) in [
        (features.has(ReadOnlyCompatible::PROJECT), "project"),
        (features.has(Incompatible::INLINE_DATA), "inline_data"),
    ] {
        if set && bytes == MIN {
            return Err(invalid(format!(
                "inodes of 128 bytes are too small for the feature `{name}`"
            )));
        }
    }
    Ok(bytes)
}

fn bytes_per_inode(options: &FormatOptions, profile: Profile, cluster_bytes: u64) -> Result<u64> {
    const MIN: u64 = 1024;
    const MAX: u64 = 64 << 20;
    match options.bytes_per_inode {
        None => Ok(profile.bytes_per_inode.max(cluster_bytes)),
        Some(bytes) if (MIN..=MAX).contains(&bytes) => Ok(bytes),
        Some(bytes) => Err(invalid(format!(
            "invalid number of bytes for each inode {bytes}: expected {MIN} to {MAX}"
        ))),
    }
}

/// Returns the number of inodes that are wanted at least.
fn inodes(options: &FormatOptions, features: Features, bytes: u64, ratio: u64) -> Result<u64> {
    const MAX: u64 = (1 << 32) - 1;
    if let Some(inodes) = options.inodes {
        return match inodes {
            1..=MAX => Ok(inodes),
            _ => Err(invalid(format!(
                "invalid number of inodes {inodes}: expected 1 to {MAX}"
            ))),
        };
    }
    let inodes = bytes.checked_div(ratio).unwrap_or(MAX);
    if inodes > MAX && !features.has(Incompatible::SIXTY_FOUR_BIT) {
        let reason = format!("too many inodes: {inodes}, at most {MAX}");
        return Err(invalid(reason).with_hint("use more bytes for each inode"));
    }
    Ok(inodes.min(MAX))
}

fn check_inode_tables(inodes: u64, inode_bytes: u16, filesystem_bytes: u64) -> Result<()> {
    let tables = inodes.saturating_mul(u64::from(inode_bytes));
    if tables < filesystem_bytes {
        return Ok(());
    }
    let reason = format!(
        "{inodes} inodes of {inode_bytes} bytes do not fit into the filesystem's {filesystem_bytes}"
    );
    Err(invalid(reason).with_hint("use fewer inodes, or more bytes for each inode"))
}

fn reserved_blocks(options: &FormatOptions, blocks: u64) -> Result<u64> {
    if options.reserved_ppm > RESERVED_PPM_MAX {
        return Err(invalid(
            "invalid reserve: expected at most half of the blocks",
        ));
    }
    let ppm = u128::from(options.reserved_ppm);
    let reserved = u128::from(blocks)
        .saturating_mul(ppm)
        .wrapping_div(1_000_000);
    Ok(u64::try_from(reserved).unwrap_or(0))
}

fn descriptor_bytes(options: &FormatOptions, features: Features) -> Result<u16> {
    let wide = features.has(Incompatible::SIXTY_FOUR_BIT);
    match options.extended.descriptor_bytes {
        None if wide => Ok(DESCRIPTOR_BYTES_64_BIT),
        None => Ok(DESCRIPTOR_BYTES),
        Some(_) if !wide => Err(invalid(
            "the option `desc_size` requires the feature `64bit`",
        )),
        Some(bytes)
            if bytes.is_power_of_two()
                && (DESCRIPTOR_BYTES_64_BIT..=DESCRIPTOR_BYTES_MAX).contains(&bytes) =>
        {
            Ok(bytes)
        }
        Some(bytes) => Err(invalid(format!(
            "invalid descriptor size {bytes}: expected a power of two from 64 to 1024"
        ))),
    }
}

/// Returns the number of blocks in a group. A bitmap is one block, and free blocks are counted with
/// 16 bits.
fn blocks_per_group(options: &FormatOptions, size: BlockSize, cluster_bits: u32) -> Result<u32> {
    const MIN: u32 = 256;
    /// The maximum number of clusters in a group, `EXT2_MAX_CLUSTERS_PER_GROUP`.
    const MAX: u32 = (1 << 16) - 8;
    let bits = size.bytes().wrapping_mul(8);
    let wanted = options.blocks_per_group.unwrap_or(bits);
    if !(MIN..=bits).contains(&wanted) || !wanted.is_multiple_of(8) {
        return Err(invalid(format!(
            "invalid group size {wanted}: expected a multiple of 8 from {MIN} to {bits}"
        )));
    }
    let clusters = wanted.min(MAX);
    let blocks = u64::from(clusters).wrapping_shl(cluster_bits);
    u32::try_from(blocks).map_err(|_| {
        invalid(format!(
            "the clusters are too large: a group would have {blocks} blocks"
        ))
    })
}

fn flex_bits(options: &FormatOptions, features: Features) -> Result<u32> {
    const DEFAULT_BITS: u32 = 4;
    let has_flex = features.has(Incompatible::FLEX_BG);
    match options.groups_per_flex {
        None if has_flex => Ok(DEFAULT_BITS),
        None => Ok(0),
        Some(_) if !has_flex => Err(invalid(
            "a size of flexible groups requires the feature `flex_bg`",
        )),
        Some(groups) if groups.is_power_of_two() => Ok(groups.trailing_zeros()),
        Some(groups) => Err(invalid(format!(
            "invalid size of flexible groups {groups}: expected a power of two"
        ))),
    }
}

/// Returns the groups that should have a backup superblock, with `sparse_super2`: the first and the
/// last one.
fn backup_groups(options: &FormatOptions, features: Features) -> Result<[u32; 2]> {
    if !features.has(Compatible::SPARSE_SUPER2) {
        return Ok([0; 2]);
    }
    match options.extended.backup_superblocks {
        0 => Ok([0; 2]),
        1 => Ok([1, 0]),
        2 => Ok([1, u32::MAX]),
        number => Err(invalid(format!(
            "invalid number of backup superblocks {number}: expected 0 to 2"
        ))),
    }
}
