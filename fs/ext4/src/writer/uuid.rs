//! Another UUID for the filesystem, as `tune2fs -U` gives it to a mounted one.

use diskfs_block::BlockRead;

use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::superblock::{Superblock, check_writable};

use super::Core;

/// The superblock's block.
const CREDITS: u32 = 1;

/// What another UUID changes besides itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UuidChange {
    /// Nothing.
    Plain,
    /// The seed of the checksums was the old UUID, and is stored from now on: the feature `metadata_csum_seed`. Linux has it
    /// since 4.4, GRUB since 2.12.
    AddsChecksumSeed,
}

/// Returns what another UUID of the ext2, ext3 or ext4 filesystem on a device changes.
///
/// # Errors
/// `Unsupported` where the filesystem can't be written, and where checksums or keys depend on the UUID and can't be
/// kept; `Corrupt`, `Io`.
pub fn uuid_change(device: &dyn BlockRead) -> Result<UuidChange> {
    let superblock = Superblock::read(device)?;
    check_writable(&superblock)?;
    of_superblock(&superblock)
}

fn of_superblock(superblock: &Superblock) -> Result<UuidChange> {
    let features = superblock.features;
    let has_seed = features.has(Incompatible::CSUM_SEED);
    let refused = if features.has(Compatible::STABLE_INODES) {
        Some("keys of encrypted files depend on the UUID (stable_inodes)")
    } else if superblock.checksum_seed.is_some() {
        None
    } else if features.has(ReadOnlyCompatible::GDT_CSUM) {
        Some("checksums of all group descriptors depend on the UUID (uninit_bg)")
    } else if features.has(Incompatible::EA_INODE) && !has_seed {
        Some("hashes of large attributes depend on the UUID (ea_inode)")
    } else {
        None
    };
    match refused {
        Some(reason) => {
            let hint = "`tune2fs -U random` changes it on an unmounted filesystem";
            Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint))
        }
        None if superblock.checksum_seed.is_some() && !has_seed => Ok(UuidChange::AddsChecksumSeed),
        None => Ok(UuidChange::Plain),
    }
}

impl Core {
    /// Gives the filesystem another UUID.
    ///
    /// # Errors
    /// As [`uuid_change`], before anything is changed.
    pub(crate) fn set_uuid(&self, uuid: [u8; 16]) -> Result<()> {
        let superblock = &self.volume().superblock;
        let change = of_superblock(superblock)?;
        self.update(&[], CREDITS, |handle| {
            handle.change_superblock(|raw| {
                let has_seed = Incompatible::CSUM_SEED.bits();
                let is_new = raw.s_feature_incompat.get() & has_seed == 0;
                if let (UuidChange::AddsChecksumSeed, true, Some(seed)) =
                    (change, is_new, superblock.checksum_seed)
                {
                    raw.s_checksum_seed.set(seed.0);
                    let features = raw.s_feature_incompat.get() | has_seed;
                    raw.s_feature_incompat.set(features);
                }
                raw.s_uuid = uuid;
            })
        })
    }
}
