//! The superblock: the geometry of the filesystem, its features and its state.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Super Block".

mod backup;
mod change;
mod check_writable;
mod fields;
mod raw;

use diskfs_block::BlockRead;
use diskfs_vfs::{Error, ErrorKind};
use zerocopy::FromBytes;

use crate::block::{BlockSize, FsBlock};
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, Result, Structure, device_failed, malformed};
use crate::features::{Features, Incompatible, ReadOnlyCompatible};
use crate::htree::{Algorithm, HashSignedness};

pub(crate) use change::{change, change_bytes, change_on, sealed};
pub(crate) use check_writable::check_writable;
pub(crate) use raw::{OFFSET_BYTES, RawSuperblock, SIZE_BYTES};

pub(crate) const MAGIC: u16 = 0xef53;
/// `EXT2_FLAGS_SIGNED_HASH`: directory hashes treat a name's bytes as signed.
pub(crate) const FLAG_SIGNED_HASH: u32 = 0x1;
/// `EXT2_FLAGS_UNSIGNED_HASH`: directory hashes treat a name's bytes as unsigned.
const FLAG_UNSIGNED_HASH: u32 = 0x2;
/// `EXT4_ENC_STRICT_MODE_FL` of `s_encoding_flags`.
pub(crate) const ENCODING_STRICT: u16 = 0x1;
/// `EXT2_FLAGS_TEST_FILESYS`: a filesystem that blkid calls ext4dev.
pub(crate) const FLAG_TEST: u32 = 0x4;
/// The only valid `s_checksum_type`: CRC-32C.
pub(crate) const CHECKSUM_CRC32C: u8 = 1;
/// A flag of `s_state`: the filesystem was unmounted cleanly.
pub(crate) const STATE_VALID: u16 = 0x1;
/// A flag of `s_state`: the kernel found an inconsistency.
pub(crate) const STATE_ERRORS: u16 = 0x2;

/// A superblock whose fields were checked: sizes are powers of two, counts fit the device, the
/// checksum is right.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    /// The revision: 0 for ext2 of the first years, without features; otherwise 1.
    pub(crate) revision: u32,
    pub(crate) features: Features,
    pub(crate) block_size: BlockSize,
    /// The number of blocks in a cluster, as a power of two: 0 without bigalloc.
    pub(crate) cluster_ratio_bits: u32,
    pub(crate) blocks_count: u64,
    pub(crate) reserved_blocks_count: u64,
    pub(crate) inodes_count: u32,
    pub(crate) first_data_block: u32,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) groups_count: u32,
    /// The size of an inode in bytes: a power of two from 128 to the block size.
    pub(crate) inode_size: u16,
    pub(crate) first_inode: u32,
    /// The size of a group descriptor in bytes: 32, or with `64bit` a power of two from 64.
    pub(crate) descriptor_size: u16,
    pub(crate) first_meta_bg: u32,
    /// The number of groups in a flexible group, as a power of two: 0 without `flex_bg`.
    pub(crate) flex_group_bits: u32,
    pub(crate) reserved_gdt_blocks: u16,
    pub(crate) backup_groups: [u32; 2],
    pub(crate) overhead_clusters: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) label: [u8; 16],
    /// The inode of the orphan file; 0 without one.
    pub(crate) orphan_file_inode: u32,
    /// The first inode of the orphan list; 0 if the list is empty.
    pub(crate) last_orphan: u32,
    /// The number of bytes of fields that new inodes have after their first 128 bytes.
    pub(crate) want_extra_isize: u16,
    /// The inode of the internal journal; 0 without one.
    pub(crate) journal_inode: u32,
    pub(crate) hash_seed: [u32; 4],
    /// The hash function for directories that have no index yet; `None` for a keyed one.
    pub(crate) default_hash: Option<Algorithm>,
    pub(crate) hash_signedness: HashSignedness,
    /// True if names in casefolded directories must be valid UTF-8.
    pub(crate) strict_encoding: bool,
    /// The seed of all checksums; `None` without `metadata_csum`.
    pub(crate) checksum_seed: Option<ChecksumSeed>,
    /// The seed of the checksums of attribute values in inodes, which exist in any case.
    pub(crate) value_seed: ChecksumSeed,
    pub(crate) state: FilesystemState,
    pub(crate) is_test_filesystem: bool,
}

/// The state after the last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilesystemState {
    /// True if the filesystem was unmounted cleanly, or never mounted for writing since the last
    /// check.
    pub(crate) clean: bool,
    /// True if the kernel found an inconsistency, and e2fsck has not run since.
    pub(crate) errors: bool,
    /// The number of errors.
    pub(crate) error_count: u32,
    /// True if inodes on the orphan list wait for their deletion.
    pub(crate) orphans: bool,
}

/// Returns true if there is an ext2, ext3 or ext4 superblock, judged by its magic alone.
pub(crate) fn probe(device: &dyn BlockRead) -> diskfs_block::Result<bool> {
    if device.size_bytes() < raw::OFFSET_BYTES.saturating_add(1024) {
        return Ok(false);
    }
    let mut bytes = [0; raw::SIZE_BYTES];
    device.read_at(raw::OFFSET_BYTES, &mut bytes)?;
    Ok(RawSuperblock::ref_from_bytes(&bytes).is_ok_and(|raw| {
        let incompatible = Incompatible::from_bits_retain(raw.s_feature_incompat.get());
        raw.s_magic.get() == MAGIC && !incompatible.contains(Incompatible::JOURNAL_DEV)
    }))
}

impl Superblock {
    /// Reads and checks the primary superblock.
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Self> {
        let mut bytes = [0; raw::SIZE_BYTES];
        let size_bytes = device.size_bytes();
        if size_bytes < raw::OFFSET_BYTES.saturating_add(1024) {
            return Err(malformed(
                Structure::Superblock,
                "the device ends before it",
            ));
        }
        device
            .read_at(raw::OFFSET_BYTES, &mut bytes)
            .map_err(device_failed)?;
        Self::parse(&bytes, size_bytes).map_err(|e| match e.kind() {
            ErrorKind::Corrupt => backup::hint(device, e.at(raw::OFFSET_BYTES)),
            _ => e,
        })
    }

    /// Reads the first backup superblock, for a device whose primary superblock is destroyed.
    pub(crate) fn backup(device: &dyn BlockRead) -> Option<Self> {
        backup::read(device)
    }

    /// Checks the fields of the superblock's 1024 bytes against each other and against the device's
    /// size.
    pub(crate) fn parse(bytes: &[u8; raw::SIZE_BYTES], device_bytes: u64) -> Result<Self> {
        let raw = RawSuperblock::ref_from_bytes(bytes)
            .map_err(|_| malformed(Structure::Superblock, "truncated"))?;
        fields::check_magic(raw)?;
        let features = fields::features(raw)?;
        let checksum_seed = fields::checksum_seed(raw, features, bytes)?;
        let block_size = fields::block_size(raw)?;
        let superblock = Self {
            revision: raw.s_rev_level.get(),
            features,
            block_size,
            cluster_ratio_bits: fields::cluster_ratio_bits(raw, features)?,
            blocks_count: fields::wide(
                features,
                raw.s_blocks_count_hi.get(),
                raw.s_blocks_count_lo.get(),
            ),
            reserved_blocks_count: fields::wide(
                features,
                raw.s_r_blocks_count_hi.get(),
                raw.s_r_blocks_count_lo.get(),
            ),
            inodes_count: raw.s_inodes_count.get(),
            first_data_block: raw.s_first_data_block.get(),
            blocks_per_group: raw.s_blocks_per_group.get(),
            inodes_per_group: raw.s_inodes_per_group.get(),
            groups_count: 0,
            inode_size: fields::inode_size(raw, block_size)?,
            first_inode: fields::first_inode(raw)?,
            descriptor_size: fields::descriptor_size(raw, features, block_size)?,
            first_meta_bg: raw.s_first_meta_bg.get(),
            flex_group_bits: fields::flex_group_bits(raw, features),
            reserved_gdt_blocks: raw.s_reserved_gdt_blocks.get(),
            backup_groups: raw.s_backup_bgs.map(zerocopy::little_endian::U32::get),
            overhead_clusters: raw.s_overhead_clusters.get(),
            uuid: raw.s_uuid,
            label: raw.s_volume_name,
            orphan_file_inode: fields::orphan_file_inode(raw, features),
            last_orphan: raw.s_last_orphan.get(),
            want_extra_isize: fields::want_extra_isize(raw, features),
            journal_inode: raw.s_journal_inum.get(),
            hash_seed: raw.s_hash_seed.map(zerocopy::little_endian::U32::get),
            default_hash: fields::default_hash(raw),
            hash_signedness: fields::hash_signedness(raw),
            strict_encoding: raw.s_encoding_flags.get() & ENCODING_STRICT != 0,
            checksum_seed,
            value_seed: fields::seed(raw, features),
            state: fields::state(raw),
            is_test_filesystem: raw.s_flags.get() & FLAG_TEST != 0,
        };
        superblock.with_checked_geometry(raw, device_bytes)
    }

    fn with_checked_geometry(mut self, raw: &RawSuperblock, device_bytes: u64) -> Result<Self> {
        self.check_first_data_block()?;
        self.check_group_sizes(raw)?;
        if self.block_size.bytes_of(self.blocks_count) > device_bytes {
            let e = Error::from(Corrupt::LargerThanDevice {
                blocks: self.blocks_count,
                block_size: self.block_size.bytes(),
                device_bytes,
            });
            return Err(e.with_hint("the image or the partition is truncated; get a complete copy"));
        }
        let blocks = self
            .blocks_count
            .saturating_sub(u64::from(self.first_data_block));
        let groups = blocks.div_ceil(u64::from(self.blocks_per_group));
        self.groups_count = u32::try_from(groups)
            .map_err(|_| fields::field("number of block groups", groups, "below 2^32"))?;
        self.check_inodes_count()?;
        Ok(self)
    }

    fn check_first_data_block(&self) -> Result<()> {
        let first = u64::from(self.first_data_block);
        let expected = u64::from(self.block_size.bytes() == 1024 && self.cluster_ratio_bits == 0);
        // The kernel accepts other values, too, but no program ever wrote one.
        if first > 1 || first < expected || first >= self.blocks_count {
            return Err(fields::field(
                "s_first_data_block",
                first,
                "0, or 1 with blocks of 1 KiB",
            ));
        }
        Ok(())
    }

    fn check_group_sizes(&self, raw: &RawSuperblock) -> Result<()> {
        // A bitmap is one block: its number of bits bounds the size of a group.
        let bits = self.block_size.bytes().wrapping_mul(8);
        let clusters = if self.features.has(ReadOnlyCompatible::BIGALLOC) {
            raw.s_clusters_per_group.get()
        } else {
            self.blocks_per_group
        };
        let blocks = u64::from(clusters).wrapping_shl(self.cluster_ratio_bits);
        if clusters == 0 || clusters > bits || u64::from(self.blocks_per_group) != blocks {
            let value = u64::from(self.blocks_per_group);
            return Err(fields::field(
                "s_blocks_per_group",
                value,
                "1 to the number of bits in a block",
            ));
        }
        let inodes_per_block = self.inodes_per_block();
        if self.inodes_per_group < inodes_per_block || self.inodes_per_group > bits {
            let value = u64::from(self.inodes_per_group);
            return Err(fields::field(
                "s_inodes_per_group",
                value,
                "one block of inodes to the number of bits in a block",
            ));
        }
        Ok(())
    }

    fn check_inodes_count(&self) -> Result<()> {
        let inodes = u64::from(self.groups_count).saturating_mul(u64::from(self.inodes_per_group));
        if inodes != u64::from(self.inodes_count) {
            let value = u64::from(self.inodes_count);
            return Err(fields::field(
                "s_inodes_count",
                value,
                "block groups times s_inodes_per_group",
            ));
        }
        Ok(())
    }

    /// Returns the seed of the checksums of everything that belongs to one inode.
    pub(crate) fn inode_checksum_seed(&self, inode: u32, generation: u32) -> Option<ChecksumSeed> {
        Some(self.checksum_seed?.of_inode(inode, generation))
    }

    /// Returns the number of inodes in a block of an inode table.
    pub(crate) fn inodes_per_block(&self) -> u32 {
        // The size is a power of two from 128 on.
        self.block_size
            .bytes()
            .wrapping_shr(u32::from(self.inode_size).trailing_zeros())
    }

    /// Returns the number of group descriptors in a block.
    pub(crate) fn descriptors_per_block(&self) -> u32 {
        self.block_size
            .bytes()
            .wrapping_shr(u32::from(self.descriptor_size).trailing_zeros())
    }

    /// Returns the block of the descriptor table that describes a group, and the position in it.
    pub(crate) fn descriptor_place(&self, group: u32) -> (u32, u32) {
        let per_block = self.descriptors_per_block();
        let nth = group.wrapping_shr(per_block.trailing_zeros());
        (nth, group & per_block.wrapping_sub(1))
    }

    /// Returns the number of blocks of one group's inode table.
    pub(crate) fn inode_table_blocks(&self) -> u32 {
        self.inodes_per_group
            .div_ceil(self.inodes_per_block().max(1))
    }

    /// Returns the first block of a block group.
    pub(crate) fn first_block_of_group(&self, group: u32) -> FsBlock {
        let blocks = u64::from(group).saturating_mul(u64::from(self.blocks_per_group));
        FsBlock(u64::from(self.first_data_block)).after(blocks)
    }

    /// Returns true if `len_blocks` blocks from `block` on can belong to a file: they are within
    /// the filesystem, and after the superblock.
    pub(crate) fn holds(&self, block: FsBlock, len_blocks: u64) -> bool {
        block.0 > u64::from(self.first_data_block)
            && block
                .0
                .checked_add(len_blocks)
                .is_some_and(|end| end <= self.blocks_count)
    }

    /// Fails unless [`holds`](Self::holds) returns true.
    pub(crate) fn check_blocks(
        &self,
        structure: Structure,
        block: FsBlock,
        len_blocks: u64,
    ) -> Result<()> {
        if self.holds(block, len_blocks) {
            return Ok(());
        }
        Err(Corrupt::BlockOutside {
            structure,
            block,
            blocks: self.blocks_count,
        }
        .into())
    }

    /// Returns the label up to its first NUL.
    pub(crate) fn label(&self) -> &[u8] {
        self.label
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default()
    }
}

/// Returns `s_free_blocks_count`.
pub(crate) fn free_blocks(superblock: &Superblock, raw: &RawSuperblock) -> u64 {
    fields::wide(
        superblock.features,
        raw.s_free_blocks_count_hi.get(),
        raw.s_free_blocks_count_lo.get(),
    )
}

/// Returns the block of the superblock, `1024 / block size`, from which the places of the group
/// descriptors are computed.
pub(crate) fn superblock_block(block_size: BlockSize) -> FsBlock {
    FsBlock(raw::OFFSET_BYTES.wrapping_shr(block_size.bits()))
}

#[cfg(test)]
pub(crate) mod tests;
