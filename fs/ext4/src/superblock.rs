//! The superblock: where everything is, and what is in use.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Super Block".

mod backup;
mod raw;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Error, ErrorKind};
use zerocopy::{FromBytes, IntoBytes};

use crate::block::{BlockSize, FsBlock};
use crate::bytes::{index, join64};
use crate::checksum::{ChecksumSeed, crc32c};
use crate::error::{Corrupt, Result, Structure, Unsupported, device_failed, malformed};
use crate::features::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use crate::htree::Algorithm;
use crate::writer::write_failed;

pub(crate) use raw::RawSuperblock;

pub(crate) const MAGIC: u16 = 0xef53;
/// `EXT2_FLAGS_SIGNED_HASH`: directory hashes take names as signed characters.
const FLAG_SIGNED_HASH: u32 = 0x1;
/// `EXT2_FLAGS_UNSIGNED_HASH`.
const FLAG_UNSIGNED_HASH: u32 = 0x2;
/// `EXT4_ENC_STRICT_MODE_FL`, of `s_encoding_flags`.
const ENCODING_STRICT: u16 = 0x1;
/// `EXT2_FLAGS_TEST_FILESYS`: what blkid calls ext4dev.
const FLAG_TEST: u32 = 0x4;
/// `s_checksum_type`: CRC-32C, the only one there is.
const CHECKSUM_CRC32C: u8 = 1;
/// `s_state`: unmounted cleanly.
pub(crate) const STATE_VALID: u16 = 0x1;
/// `s_state`: the kernel met a contradiction.
pub(crate) const STATE_ERRORS: u16 = 0x2;

/// A superblock whose fields hold together: sizes are powers of two, counts fit the device, the
/// checksum is right.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    /// 0 for what ext2 was in its first years, without features; else 1.
    pub(crate) revision: u32,
    pub(crate) features: Features,
    pub(crate) block_size: BlockSize,
    /// Blocks in a cluster, as a power of two: 0 without bigalloc.
    pub(crate) cluster_ratio_bits: u32,
    pub(crate) blocks_count: u64,
    pub(crate) reserved_blocks_count: u64,
    pub(crate) inodes_count: u32,
    pub(crate) first_data_block: u32,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) groups_count: u32,
    /// Bytes in an inode: a power of two, 128 to the block size.
    pub(crate) inode_size: u16,
    pub(crate) first_inode: u32,
    /// Bytes in a group descriptor: 32, or with `64bit` a power of two from 64.
    pub(crate) descriptor_size: u16,
    pub(crate) first_meta_bg: u32,
    /// Groups in a flexible group, as a power of two: 0 without `flex_bg`.
    pub(crate) flex_group_bits: u32,
    pub(crate) reserved_gdt_blocks: u16,
    pub(crate) backup_groups: [u32; 2],
    pub(crate) overhead_clusters: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) label: [u8; 16],
    /// The inode of the file of orphans; 0 without one.
    pub(crate) orphan_file_inode: u32,
    /// The first inode of the orphan list; 0 when there is none.
    pub(crate) last_orphan: u32,
    /// How far the fields of new inodes go behind their first 128 bytes.
    pub(crate) want_extra_isize: u16,
    /// The inode of the internal journal; 0 without one.
    pub(crate) journal_inode: u32,
    pub(crate) hash_seed: [u32; 4],
    /// The hash of directories that have no index yet; `None` for one that takes a key.
    pub(crate) default_hash: Option<Algorithm>,
    pub(crate) hash_signedness: HashSignedness,
    /// Whether names in casefolded directories must be UTF-8.
    pub(crate) strict_encoding: bool,
    /// The seed of all checksums; `None` without `metadata_csum`.
    pub(crate) checksum_seed: Option<ChecksumSeed>,
    /// The seed of the checksums of attribute values in inodes, which are there in any case.
    pub(crate) value_seed: ChecksumSeed,
    pub(crate) state: State,
    pub(crate) is_test_filesystem: bool,
}

/// How directory hashes take the bytes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HashSignedness {
    Signed,
    Unsigned,
}

/// What the superblock says of the last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// Unmounted, or never mounted for writing, since it was last checked.
    pub(crate) clean: bool,
    /// The kernel met a contradiction, and nobody has run e2fsck since.
    pub(crate) errors: bool,
    /// How many.
    pub(crate) error_count: u32,
    /// There are inodes that wait for their deletion.
    pub(crate) orphans: bool,
}

/// Whether an ext2, ext3 or ext4 superblock is there, judged by its magic alone.
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

    /// Checks the superblock's 1024 bytes against each other and against the device's size.
    pub(crate) fn parse(bytes: &[u8; raw::SIZE_BYTES], device_bytes: u64) -> Result<Self> {
        let raw = RawSuperblock::ref_from_bytes(bytes)
            .map_err(|_| malformed(Structure::Superblock, "it is cut short"))?;
        check_magic(raw)?;
        let features = features(raw)?;
        let checksum_seed = checksum_seed(raw, features, bytes)?;
        let block_size = block_size(raw)?;
        let superblock = Self {
            revision: raw.s_rev_level.get(),
            features,
            block_size,
            cluster_ratio_bits: cluster_ratio_bits(raw, features)?,
            blocks_count: wide(
                features,
                raw.s_blocks_count_hi.get(),
                raw.s_blocks_count_lo.get(),
            ),
            reserved_blocks_count: wide(
                features,
                raw.s_r_blocks_count_hi.get(),
                raw.s_r_blocks_count_lo.get(),
            ),
            inodes_count: raw.s_inodes_count.get(),
            first_data_block: raw.s_first_data_block.get(),
            blocks_per_group: raw.s_blocks_per_group.get(),
            inodes_per_group: raw.s_inodes_per_group.get(),
            groups_count: 0,
            inode_size: inode_size(raw, block_size)?,
            first_inode: first_inode(raw)?,
            descriptor_size: descriptor_size(raw, features, block_size)?,
            first_meta_bg: raw.s_first_meta_bg.get(),
            flex_group_bits: flex_group_bits(raw, features),
            reserved_gdt_blocks: raw.s_reserved_gdt_blocks.get(),
            backup_groups: raw.s_backup_bgs.map(zerocopy::little_endian::U32::get),
            overhead_clusters: raw.s_overhead_clusters.get(),
            uuid: raw.s_uuid,
            label: raw.s_volume_name,
            orphan_file_inode: orphan_file_inode(raw, features),
            last_orphan: raw.s_last_orphan.get(),
            want_extra_isize: want_extra_isize(raw, features),
            journal_inode: raw.s_journal_inum.get(),
            hash_seed: raw.s_hash_seed.map(zerocopy::little_endian::U32::get),
            default_hash: default_hash(raw),
            hash_signedness: hash_signedness(raw),
            strict_encoding: raw.s_encoding_flags.get() & ENCODING_STRICT != 0,
            checksum_seed,
            value_seed: seed(raw, features),
            state: state(raw),
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
            return Err(e.hint("the image or the partition is cut short; get the whole of it"));
        }
        let blocks = self
            .blocks_count
            .saturating_sub(u64::from(self.first_data_block));
        let groups = blocks.div_ceil(u64::from(self.blocks_per_group));
        self.groups_count =
            u32::try_from(groups).map_err(|_| field("block groups", groups, "below 2^32"))?;
        self.check_inodes_count()?;
        Ok(self)
    }

    fn check_first_data_block(&self) -> Result<()> {
        let first = u64::from(self.first_data_block);
        let expected = u64::from(self.block_size.bytes() == 1024 && self.cluster_ratio_bits == 0);
        // The kernel takes other values, too, but nothing ever wrote one.
        if first > 1 || first < expected || first >= self.blocks_count {
            return Err(field(
                "s_first_data_block",
                first,
                "0, or 1 with blocks of 1 KiB",
            ));
        }
        Ok(())
    }

    fn check_group_sizes(&self, raw: &RawSuperblock) -> Result<()> {
        // A bitmap is one block: its bits bound how much a group can have.
        let bits = self.block_size.bytes().wrapping_mul(8);
        let clusters = if self.features.has(ReadOnlyCompatible::BIGALLOC) {
            raw.s_clusters_per_group.get()
        } else {
            self.blocks_per_group
        };
        let blocks = u64::from(clusters).wrapping_shl(self.cluster_ratio_bits);
        if clusters == 0 || clusters > bits || u64::from(self.blocks_per_group) != blocks {
            let value = u64::from(self.blocks_per_group);
            return Err(field(
                "s_blocks_per_group",
                value,
                "1 to the bits of a block",
            ));
        }
        let inodes_per_block = self.inodes_per_block();
        if self.inodes_per_group < inodes_per_block || self.inodes_per_group > bits {
            let value = u64::from(self.inodes_per_group);
            return Err(field(
                "s_inodes_per_group",
                value,
                "1 block of inodes to the bits of a block",
            ));
        }
        Ok(())
    }

    fn check_inodes_count(&self) -> Result<()> {
        let inodes = u64::from(self.groups_count).saturating_mul(u64::from(self.inodes_per_group));
        if inodes != u64::from(self.inodes_count) {
            let value = u64::from(self.inodes_count);
            return Err(field(
                "s_inodes_count",
                value,
                "block groups times s_inodes_per_group",
            ));
        }
        Ok(())
    }

    /// The seed of the checksums of everything that belongs to one inode.
    pub(crate) fn inode_checksum_seed(&self, inode: u32, generation: u32) -> Option<ChecksumSeed> {
        Some(self.checksum_seed?.of_inode(inode, generation))
    }

    /// How many inodes a block of an inode table holds.
    pub(crate) fn inodes_per_block(&self) -> u32 {
        // The size is a power of two from 128 on.
        self.block_size
            .bytes()
            .wrapping_shr(u32::from(self.inode_size).trailing_zeros())
    }

    /// How many group descriptors a block holds.
    pub(crate) fn descriptors_per_block(&self) -> u32 {
        self.block_size
            .bytes()
            .wrapping_shr(u32::from(self.descriptor_size).trailing_zeros())
    }

    /// Which block of the descriptor table speaks of a group, and the position in it.
    pub(crate) fn descriptor_place(&self, group: u32) -> (u32, u32) {
        let per_block = self.descriptors_per_block();
        let nth = group.wrapping_shr(per_block.trailing_zeros());
        (nth, group & per_block.wrapping_sub(1))
    }

    /// The blocks of one group's inode table.
    pub(crate) fn inode_table_blocks(&self) -> u32 {
        self.inodes_per_group
            .div_ceil(self.inodes_per_block().max(1))
    }

    /// The first block of a block group.
    pub(crate) fn first_block_of_group(&self, group: u32) -> FsBlock {
        let blocks = u64::from(group).saturating_mul(u64::from(self.blocks_per_group));
        FsBlock(u64::from(self.first_data_block)).after(blocks)
    }

    /// Whether `len_blocks` blocks from `block` on can belong to a file: within the filesystem, and
    /// past the superblock.
    pub(crate) fn holds(&self, block: FsBlock, len_blocks: u64) -> bool {
        block.0 > u64::from(self.first_data_block)
            && block
                .0
                .checked_add(len_blocks)
                .is_some_and(|end| end <= self.blocks_count)
    }

    /// Fails unless [`holds`](Self::holds).
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

    /// The label up to its first NUL.
    pub(crate) fn label(&self) -> &[u8] {
        self.label
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default()
    }
}

fn field(field: &'static str, value: u64, range: &'static str) -> Error {
    Corrupt::Field {
        structure: Structure::Superblock,
        field,
        value,
        range,
    }
    .into()
}

fn check_magic(raw: &RawSuperblock) -> Result<()> {
    let actual = raw.s_magic.get();
    if actual == MAGIC {
        return Ok(());
    }
    Err(Corrupt::Magic {
        structure: Structure::Superblock,
        expected: u32::from(MAGIC),
        actual: u32::from(actual),
    }
    .into())
}

/// The feature words, unless there are some that forbid reading.
fn features(raw: &RawSuperblock) -> Result<Features> {
    // Revision 0 has no feature words: what stands there is undefined.
    let (compatible, incompatible, read_only) = match raw.s_rev_level.get() {
        0 => (0, 0, 0),
        1 => (
            raw.s_feature_compat.get(),
            raw.s_feature_incompat.get(),
            raw.s_feature_ro_compat.get(),
        ),
        other => return Err(Unsupported::Revision(other).into()),
    };
    let features = Features {
        compatible: Compatible::from_bits_retain(compatible),
        incompatible: Incompatible::from_bits_retain(incompatible),
        read_only_compatible: ReadOnlyCompatible::from_bits_retain(read_only),
    };
    if features.has(Incompatible::JOURNAL_DEV) {
        return Err(Unsupported::JournalDevice.into());
    }
    let unreadable = features.unreadable_names();
    if !unreadable.is_empty() {
        return Err(Unsupported::Features(unreadable).into());
    }
    Ok(features)
}

/// The seed of the checksums, after the superblock's own is found right; `None` without
/// `metadata_csum`.
fn checksum_seed(
    raw: &RawSuperblock,
    features: Features,
    bytes: &[u8; raw::SIZE_BYTES],
) -> Result<Option<ChecksumSeed>> {
    if !features.has(ReadOnlyCompatible::METADATA_CSUM) {
        return Ok(None);
    }
    if raw.s_checksum_type != CHECKSUM_CRC32C {
        let value = u64::from(raw.s_checksum_type);
        return Err(field("s_checksum_type", value, "1, which is CRC-32C"));
    }
    let covered = bytes.get(..raw::CHECKED_BYTES).unwrap_or_default();
    let expected = crc32c(u32::MAX, covered);
    let actual = raw.s_checksum.get();
    if expected != actual {
        return Err(Corrupt::Checksum {
            structure: Structure::Superblock,
            expected,
            actual,
        }
        .into());
    }
    Ok(Some(seed(raw, features)))
}

fn seed(raw: &RawSuperblock, features: Features) -> ChecksumSeed {
    if features.has(Incompatible::CSUM_SEED) {
        ChecksumSeed(raw.s_checksum_seed.get())
    } else {
        ChecksumSeed::of_uuid(&raw.s_uuid)
    }
}

fn block_size(raw: &RawSuperblock) -> Result<BlockSize> {
    let log = raw.s_log_block_size.get();
    BlockSize::from_log(log).ok_or_else(|| field("s_log_block_size", u64::from(log), "0 to 6"))
}

fn cluster_ratio_bits(raw: &RawSuperblock, features: Features) -> Result<u32> {
    /// `EXT4_MAX_CLUSTER_LOG_SIZE`, 1 GiB.
    const LOG_MAX: u32 = 30;
    if !features.has(ReadOnlyCompatible::BIGALLOC) {
        return Ok(0);
    }
    let log = raw.s_log_cluster_size.get();
    match log.checked_sub(raw.s_log_block_size.get()) {
        Some(bits) if log <= LOG_MAX.saturating_sub(10) => Ok(bits),
        _ => Err(field(
            "s_log_cluster_size",
            u64::from(log),
            "s_log_block_size to 20",
        )),
    }
}

/// A block count: its upper half counts with `64bit` only.
fn wide(features: Features, high: u32, low: u32) -> u64 {
    if features.has(Incompatible::SIXTY_FOUR_BIT) {
        join64(high, low)
    } else {
        u64::from(low)
    }
}

fn flex_group_bits(raw: &RawSuperblock, features: Features) -> u32 {
    let bits = u32::from(raw.s_log_groups_per_flex);
    // It tells where files are best put; the kernel ignores a value that makes no sense.
    if features.has(Incompatible::FLEX_BG) && bits < u32::BITS {
        bits
    } else {
        0
    }
}

fn inode_size(raw: &RawSuperblock, block_size: BlockSize) -> Result<u16> {
    if raw.s_rev_level.get() == 0 {
        return Ok(128);
    }
    let size = raw.s_inode_size.get();
    if size < 128 || !size.is_power_of_two() || usize::from(size) > block_size.len() {
        let range = "a power of two, 128 to the block size";
        return Err(field("s_inode_size", u64::from(size), range));
    }
    Ok(size)
}

fn first_inode(raw: &RawSuperblock) -> Result<u32> {
    const GOOD_OLD_FIRST_INO: u32 = 11;
    if raw.s_rev_level.get() == 0 {
        return Ok(GOOD_OLD_FIRST_INO);
    }
    let first = raw.s_first_ino.get();
    if first < GOOD_OLD_FIRST_INO {
        return Err(field("s_first_ino", u64::from(first), "11 or more"));
    }
    Ok(first)
}

fn descriptor_size(raw: &RawSuperblock, features: Features, block_size: BlockSize) -> Result<u16> {
    if !features.has(Incompatible::SIXTY_FOUR_BIT) {
        return Ok(32);
    }
    let size = raw.s_desc_size.get();
    if size < 64 || !size.is_power_of_two() || usize::from(size) > block_size.len() {
        let range = "a power of two, 64 to the block size";
        return Err(field("s_desc_size", u64::from(size), range));
    }
    Ok(size)
}

fn orphan_file_inode(raw: &RawSuperblock, features: Features) -> u32 {
    if features.has(Compatible::ORPHAN_FILE) {
        raw.s_orphan_file_inum.get()
    } else {
        0
    }
}

/// What the kernel gives new inodes: all fields that it knows, or more if the superblock asks for
/// it and there is room.
fn want_extra_isize(raw: &RawSuperblock, features: Features) -> u16 {
    const KNOWN: u16 = 32;
    let room = raw.s_inode_size.get().saturating_sub(128);
    if raw.s_rev_level.get() == 0 || room == 0 {
        return 0;
    }
    let asked = if features.has(ReadOnlyCompatible::EXTRA_ISIZE) {
        raw.s_want_extra_isize
            .get()
            .max(raw.s_min_extra_isize.get())
    } else {
        0
    };
    let size = KNOWN.max(asked);
    // A field's size is a multiple of 4; what does not fit is not wanted, as in Linux.
    if size > room || size & 3 != 0 {
        KNOWN
    } else {
        size
    }
}

/// Changes the superblock that is in `block`, the block that holds it, and makes its checksum
/// right.
///
/// # Errors
/// `Corrupt` when the block is too short.
pub(crate) fn change(
    superblock: &Superblock,
    block: &mut [u8],
    change: impl FnOnce(&mut RawSuperblock),
) -> Result<()> {
    let within = index(superblock.block_size.bytes().wrapping_sub(1)) & index(raw::OFFSET_BYTES);
    let bytes = block.get_mut(within..).unwrap_or_default();
    change_bytes(superblock, bytes, change)
}

/// Changes the superblock on the device, past everything else: when nobody else does. Its 1024
/// bytes are one write, but durable only with the next flush.
///
/// # Errors
/// What the device says.
pub(crate) fn change_on(
    device: &dyn BlockWrite,
    superblock: &Superblock,
    change: impl FnOnce(&mut RawSuperblock),
) -> Result<()> {
    let mut bytes = [0; raw::SIZE_BYTES];
    device
        .read_at(raw::OFFSET_BYTES, &mut bytes)
        .map_err(device_failed)?;
    change_bytes(superblock, &mut bytes, change)?;
    device
        .write_at(raw::OFFSET_BYTES, &bytes)
        .map_err(write_failed)
}

fn change_bytes(
    superblock: &Superblock,
    bytes: &mut [u8],
    change: impl FnOnce(&mut RawSuperblock),
) -> Result<()> {
    let (raw, _) = RawSuperblock::mut_from_prefix(bytes)
        .map_err(|_| malformed(Structure::Superblock, "it is cut short"))?;
    change(raw);
    if superblock.checksum_seed.is_some() {
        let covered = raw.as_bytes().get(..raw::CHECKED_BYTES);
        let checksum = crc32c(u32::MAX, covered.unwrap_or_default());
        raw.s_checksum.set(checksum);
    }
    Ok(())
}

fn hash_signedness(raw: &RawSuperblock) -> HashSignedness {
    let flags = raw.s_flags.get();
    // Neither flag: nobody has decided yet, and the kernel decides by its own `char`, which is
    // signed on x86. An image comes from there more often than not.
    if flags & FLAG_UNSIGNED_HASH != 0 && flags & FLAG_SIGNED_HASH == 0 {
        HashSignedness::Unsigned
    } else {
        HashSignedness::Signed
    }
}

fn default_hash(raw: &RawSuperblock) -> Option<Algorithm> {
    match raw.s_def_hash_version {
        0 => Some(Algorithm::Legacy),
        1 => Some(Algorithm::HalfMd4),
        2 => Some(Algorithm::Tea),
        _ => None,
    }
}

fn state(raw: &RawSuperblock) -> State {
    let state = raw.s_state.get();
    State {
        clean: state & STATE_VALID != 0,
        errors: state & STATE_ERRORS != 0,
        error_count: raw.s_error_count.get(),
        orphans: raw.s_last_orphan.get() != 0,
    }
}

/// `1024 / block size`, as the group descriptors' place needs it: the block of the superblock.
pub(crate) fn superblock_block(block_size: BlockSize) -> FsBlock {
    FsBlock(raw::OFFSET_BYTES.wrapping_shr(block_size.bits()))
}

#[cfg(test)]
pub(crate) mod tests;
