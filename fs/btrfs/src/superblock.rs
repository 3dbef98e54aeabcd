//! The superblock (`struct btrfs_super_block`) and its copies.

mod raw;

use diskfs_block::{BlockRead, read_within};
use zerocopy::FromBytes;

use self::raw::RawSuperblock;
use crate::checksum::ChecksumType;
use crate::dev_item::DevItem;
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed, unsupported};
use crate::features;
use crate::logical::Logical;
use crate::tree_root::TreeRoot;

/// The byte of the first superblock on each device.
pub(crate) const SUPERBLOCK_AT: u64 = 64 << 10;

/// The bytes of the superblock's copies (`btrfs_sb_offset`).
pub(crate) const COPIES_AT: [u64; 3] = [SUPERBLOCK_AT, 64 << 20, 256 << 30];

/// The length of a superblock (`BTRFS_SUPER_INFO_SIZE`).
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;

/// The magic number (`BTRFS_MAGIC`).
const MAGIC: [u8; 8] = *b"_BHRfS_M";

/// The offset of the magic number within a superblock.
const MAGIC_AT: u64 = 64;

/// The flags that a reader can ignore: written, relocation, error, and both kinds of metadump.
const FLAGS_IGNORED: u64 = 0b111 | 3 << 33;

/// The flag of a device that other filesystems grow from (`BTRFS_SUPER_FLAG_SEEDING`).
const FLAG_SEEDING: u64 = 1 << 32;

/// A superblock whose checksum is right and whose fields are in range.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    /// The byte of the device that this copy was read from.
    pub(crate) at: u64,
    pub(crate) checksum: ChecksumType,
    /// The UUID of the filesystem that users see.
    pub(crate) fsid: [u8; 16],
    /// The UUID in the headers of tree blocks.
    pub(crate) metadata_uuid: [u8; 16],
    pub(crate) flags: u64,
    pub(crate) generation: u64,
    pub(crate) root: TreeRoot,
    pub(crate) chunk_root: TreeRoot,
    /// The root of the log tree, if there is one.
    pub(crate) log_root: Option<TreeRoot>,
    pub(crate) total_bytes: u64,
    /// The object of the root tree that has the name of the default subvolume.
    pub(crate) root_dir_object_id: u64,
    pub(crate) num_devices: u64,
    pub(crate) sector_bytes: u32,
    pub(crate) node_bytes: u32,
    pub(crate) compat_ro: u64,
    pub(crate) incompat: u64,
    pub(crate) device: DevItem,
    pub(crate) label: Vec<u8>,
    /// The chunks that contain the chunk tree: pairs of a key and a chunk.
    pub(crate) sys_chunk_array: Vec<u8>,
}

impl Superblock {
    /// Reads the first copy of a device, or the newest of the others if the first is corrupt. Linux
    /// uses the first one, also if another is newer: a crash may come before it is written.
    ///
    /// # Errors
    /// The error of the first copy if none is valid; `Unsupported` for an unsupported feature.
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Self> {
        let superblock = Self::read_with_any_features(device)?;
        superblock.check_features()?;
        Ok(superblock)
    }

    /// Reads a superblock like [`read`](Self::read), whatever features the filesystem has.
    pub(crate) fn read_with_any_features(device: &dyn BlockRead) -> Result<Self> {
        let first = Self::read_copy(device, SUPERBLOCK_AT);
        match first {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let others = COPIES_AT.iter().skip(1);
                let others = others.filter_map(|at| Self::read_copy(device, *at).ok());
                others.reduce(newer).ok_or(error)
            }
            first => first,
        }
    }

    /// Reads the first copy, and the others only if that is corrupt, whatever features the
    /// filesystem has. Returns `None` if there is no magic number in the first.
    pub(crate) fn probe(device: &dyn BlockRead) -> Result<Option<Self>> {
        let magic = read_within(device, SUPERBLOCK_AT.saturating_add(MAGIC_AT), MAGIC.len());
        if magic
            .map_err(device_failed)?
            .is_none_or(|magic| magic != MAGIC)
        {
            return Ok(None);
        }
        Self::read_with_any_features(device).map(Some)
    }

    /// Reads the copy at a byte of the device, whatever features the filesystem has.
    pub(crate) fn read_copy(device: &dyn BlockRead, at: u64) -> Result<Self> {
        let bytes = read_within(device, at, SUPERBLOCK_BYTES).map_err(device_failed)?;
        let missing = || {
            corrupt(
                "missing superblock of btrfs: it is outside of the device",
                at,
            )
        };
        Self::parse(&bytes.ok_or_else(missing)?, at)
    }

    /// Parses a superblock that was read from byte `at` of a device, whatever features the filesystem
    /// has.
    pub(crate) fn parse(bytes: &[u8], at: u64) -> Result<Self> {
        let raw = RawSuperblock::ref_from_bytes(bytes)
            .map_err(|_| corrupt("invalid superblock of btrfs: it is too short", at))?;
        if raw.magic != MAGIC {
            return Err(corrupt(
                "missing superblock of btrfs: wrong magic number",
                at,
            ));
        }
        let number = raw.csum_type.get();
        let Some(checksum) = ChecksumType::from_number(number) else {
            let reason = format!("unknown checksum algorithm {number} of btrfs");
            return Err(unsupported(reason).at(at));
        };
        if !checksum.matches_block(bytes) {
            return Err(corrupt("invalid superblock of btrfs: wrong checksum", at));
        }
        if raw.bytenr.get() != at {
            let reason = "invalid superblock of btrfs: it belongs to another place";
            return Err(corrupt(reason, at));
        }
        raw.validate(checksum, at)
    }

    /// Fails with `Unsupported` if the filesystem has a feature that is not supported.
    pub(crate) fn check_features(&self) -> Result<()> {
        features::check_incompat(self.incompat).map_err(|e| e.at(self.at))?;
        check_flags(self.flags, self.at)
    }

    /// Returns true if the device is a seed, from which other filesystems may have grown.
    pub(crate) fn is_seed(&self) -> bool {
        self.flags & FLAG_SEEDING != 0
    }
}

/// Returns the copy with the higher generation, the first one if both are equal.
fn newer(a: Superblock, b: Superblock) -> Superblock {
    if b.generation > a.generation { b } else { a }
}

/// Fails if a tool is in the middle of converting the filesystem.
fn check_flags(flags: u64, at: u64) -> Result<()> {
    let unknown = flags & !(FLAGS_IGNORED | FLAG_SEEDING);
    if unknown == 0 {
        return Ok(());
    }
    let reason = format!("unsupported flags {unknown:#x} in the superblock of btrfs");
    let error: Error = unsupported(reason).at(at);
    Err(error.with_hint("let btrfstune complete the conversion of the filesystem"))
}

/// Fails unless a size is a power of two within limits.
fn check_size(name: &str, bytes: u32, at: u64) -> Result<()> {
    if bytes.is_power_of_two() && (4 << 10..=64 << 10).contains(&bytes) {
        return Ok(());
    }
    Err(corrupt(
        format!("invalid superblock of btrfs: {name} of {bytes} bytes"),
        at,
    ))
}

/// Returns a root of the superblock after a check of its address and level.
fn root(name: &str, root: TreeRoot, sector_bytes: u32, at: u64) -> Result<TreeRoot> {
    let Logical(address) = root.logical;
    let aligned = address.checked_rem(u64::from(sector_bytes)) == Some(0);
    if aligned && root.level < crate::tree_root::MAX_LEVELS {
        return Ok(root);
    }
    let reason = format!(
        "invalid superblock of btrfs: {name} tree at {address:#x} with level {}",
        root.level
    );
    Err(corrupt(reason, at))
}
