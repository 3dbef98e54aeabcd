//! Changing the UUID of the filesystem, as `tune2fs -U` does for a mounted one.

use diskfs_block::BlockRead;

use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::superblock::{Superblock, check_writable};

use super::Core;

/// The credits: the superblock's block.
const CREDITS: u32 = 1;

/// The changes that a new UUID requires besides the UUID itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UuidChange {
    /// No other change.
    Plain,
    /// The old UUID was the seed of the checksums; the seed is stored from now on, with the feature
    /// `metadata_csum_seed`. Linux supports it since 4.4, GRUB since 2.12.
    AddsChecksumSeed,
}

/// Returns which changes a new UUID of the ext2, ext3 or ext4 filesystem on a device requires.
///
/// # Errors
/// `Unsupported` if the filesystem cannot be written, or if checksums or keys that cannot be kept
/// depend on the UUID; `Corrupt`, `Io`.
pub fn uuid_change(device: &dyn BlockRead) -> Result<UuidChange> {
    let superblock = Superblock::read(device)?;
    check_writable(&superblock)?;
    of_superblock(&superblock)
}

fn of_superblock(superblock: &Superblock) -> Result<UuidChange> {
    let features = superblock.features;
    let has_seed = features.has(Incompatible::CSUM_SEED);
    let refused = if features.has(Compatible::STABLE_INODES) {
        Some("cannot change the UUID: keys of encrypted files depend on it (stable_inodes)")
    } else if superblock.checksum_seed.is_some() {
        None
    } else if features.has(ReadOnlyCompatible::GDT_CSUM) {
        Some("cannot change the UUID: checksums of all group descriptors depend on it (uninit_bg)")
    } else if features.has(Incompatible::EA_INODE) && !has_seed {
        Some("cannot change the UUID: hashes of large attributes depend on it (ea_inode)")
    } else {
        None
    };
    match refused {
        Some(reason) => {
            let hint = "change it with `tune2fs -U random` on an unmounted filesystem";
            Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint))
        }
        None if superblock.checksum_seed.is_some() && !has_seed => Ok(UuidChange::AddsChecksumSeed),
        None => Ok(UuidChange::Plain),
    }
}

impl Core {
    /// Sets the UUID of the filesystem.
    ///
    /// # Errors
    /// Fails like [`uuid_change`], before anything is changed.
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
