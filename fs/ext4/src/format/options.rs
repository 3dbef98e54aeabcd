//! The options for a new filesystem.

use diskfs_vfs::Timestamp;

use super::changes::FeatureChanges;

/// Root's default share of the blocks: 5 %.
const RESERVED_PPM: u32 = 50_000;

/// The type of a new filesystem: it decides on the default features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FormatKind {
    /// Without a journal and without extents.
    Ext2,
    /// With a journal, without extents.
    Ext3,
    /// With a journal, extents, checksums and flexible groups.
    #[default]
    Ext4,
}

/// The intended usage (`-T`), which decides on the block size and the number of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageType {
    /// Blocks of 1 KiB, an inode for every 8 KiB; the default below 3 MiB.
    Floppy,
    /// Blocks of 1 KiB, an inode for every 4 KiB; the default below 512 MiB.
    Small,
    /// Blocks of 4 KiB, an inode for every 16 KiB.
    Default,
    /// An inode for every 32 KiB; the default from 4 TiB on.
    Big,
    /// An inode for every 64 KiB; the default from 16 TiB on.
    Huge,
    /// An inode for every 4 KiB.
    News,
    /// An inode for every 1 MiB.
    LargeFile,
    /// An inode for every 4 MiB.
    LargeFile4,
}

/// A size that is given in blocks of the filesystem or in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCount {
    /// A number of blocks.
    Blocks(u64),
    /// A number of bytes.
    Bytes(u64),
}

/// The options for a new filesystem. [`FormatOptions::default`] is an ext4 filesystem with the
/// defaults of mke2fs; UUID, hash seed and time are zero and must be set by the caller.
///
/// With the same options and the same size, every byte of the result is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// The type of the filesystem.
    pub kind: FormatKind,
    /// The label, at most 16 bytes.
    pub label: String,
    /// The UUID. With `metadata_csum` it seeds all checksums.
    pub uuid: [u8; 16],
    /// The seed of the directory hashes. It must be random where users can choose file names.
    pub hash_seed: [u8; 16],
    /// The time of creation; nanoseconds are ignored.
    pub time: Timestamp,
    /// The usage types (`-T`), of which later ones override earlier ones. If empty, the size of the
    /// device decides.
    pub usage: Vec<UsageType>,
    /// The block size in bytes (`-b`), a power of two from 1024 to 65536.
    pub block_bytes: Option<u32>,
    /// The cluster size in bytes (`-C`), with `bigalloc`. The default is 16 blocks.
    pub cluster_bytes: Option<u32>,
    /// The inode size in bytes (`-I`), a power of two from 128 to the block size.
    pub inode_bytes: Option<u16>,
    /// The number of bytes for each inode (`-i`).
    pub bytes_per_inode: Option<u64>,
    /// The number of inodes (`-N`); it overrides `bytes_per_inode`. Each group gets a multiple of 8,
    /// so the filesystem may have a few less or many more.
    pub inodes: Option<u64>,
    /// Root's reserve (`-m`) in millionths of the blocks: 50,000 is 5 %.
    pub reserved_ppm: u32,
    /// The number of blocks in a group (`-g`), with `bigalloc` the number of clusters.
    pub blocks_per_group: Option<u32>,
    /// The number of groups in a flexible group (`-G`), a power of two.
    pub groups_per_flex: Option<u32>,
    /// The features to set and to clear (`-O`).
    pub features: FeatureChanges,
    /// The extended options (`-E`).
    pub extended: ExtendedOptions,
    /// The options of the journal (`-J`).
    pub journal: JournalOptions,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            kind: FormatKind::default(),
            label: String::new(),
            uuid: [0; 16],
            hash_seed: [0; 16],
            time: Timestamp::default(),
            usage: Vec::new(),
            block_bytes: None,
            cluster_bytes: None,
            inode_bytes: None,
            bytes_per_inode: None,
            inodes: None,
            reserved_ppm: RESERVED_PPM,
            blocks_per_group: None,
            groups_per_flex: None,
            features: FeatureChanges::default(),
            extended: ExtendedOptions::default(),
            journal: JournalOptions::default(),
        }
    }
}

/// The extended options (`-E`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own, with the name that users know"
)]
pub struct ExtendedOptions {
    /// The number of blocks that a RAID writes to one disk before the next (`stride`).
    pub stride_blocks: u16,
    /// The number of blocks in a stripe of the RAID (`stripe_width`).
    pub stripe_width_blocks: u32,
    /// The size up to which the filesystem can grow while it is mounted (`resize`).
    pub resize: Option<BlockCount>,
    /// The size of a group descriptor in bytes (`desc_size`), with `64bit`.
    pub descriptor_bytes: Option<u16>,
    /// The number of backup superblocks with `sparse_super2` (`num_backup_sb`): 0 to 2.
    pub backup_superblocks: u8,
    /// True if all bitmaps, inode tables and the journal are at the start (`packed_meta_blocks`).
    pub packed_meta_blocks: bool,
    /// True if the unused part of the inode tables is left to the kernel (`lazy_itable_init`). It
    /// requires checksums of descriptors.
    pub lazy_inode_tables: bool,
    /// True if the journal is not zeroed (`lazy_journal_init`).
    pub lazy_journal: bool,
    /// True if the caller knows that the device reads as zeroes (`assume_storage_prezeroed`).
    pub assume_zeroed: bool,
    /// True if the whole device is discarded first (`discard`, `nodiscard`).
    pub discard: bool,
    /// The owner of the root directory: user ID and group ID (`root_owner`).
    pub root_owner: (u32, u32),
    /// The permissions of the root directory (`root_perms`).
    pub root_permissions: Option<u16>,
    /// The size of the orphan file (`orphan_file_size`).
    pub orphan_file: Option<BlockCount>,
    /// True to mark the filesystem as one for tests (`test_fs`).
    pub test_filesystem: bool,
    /// True if directories with `casefold` refuse names that are not valid UTF-8
    /// (`encoding_flags=strict`).
    pub strict_encoding: bool,
}

impl Default for ExtendedOptions {
    fn default() -> Self {
        Self {
            stride_blocks: 0,
            stripe_width_blocks: 0,
            resize: None,
            descriptor_bytes: None,
            backup_superblocks: 2,
            packed_meta_blocks: false,
            lazy_inode_tables: true,
            lazy_journal: false,
            assume_zeroed: false,
            discard: true,
            root_owner: (0, 0),
            root_permissions: None,
            orphan_file: None,
            test_filesystem: false,
            strict_encoding: false,
        }
    }
}

/// The options of the journal (`-J`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalOptions {
    /// The size in MiB (`size`). It also sets the feature `has_journal`.
    pub size_mib: Option<u32>,
    /// The size of the area of fast commits in KiB (`fast_commit_size`), with `fast_commit`.
    pub fast_commit_kib: Option<u32>,
    /// The place in the filesystem from which on blocks are used for the journal (`location`).
    pub location: Option<BlockCount>,
}
