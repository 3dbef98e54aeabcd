//! The superblock in a RAID's metadata image, `dm_raid_superblock`, with the state of the RAID.
//! Linux, `drivers/md/dm-raid.c`.

use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::map::{Change, Copies};

/// The magic number, `DM_RAID_MAGIC`.
const MAGIC: [u8; 4] = *b"DmRd";

/// The feature flag for a superblock with `flags`, `FEATURE_FLAG_SUPPORTS_V190`.
const HAS_FLAGS: u32 = 1;

/// The flag for an active reshape, `SB_FLAG_RESHAPE_ACTIVE`.
const RESHAPING: u32 = 1;

/// The offset that means "completely done".
const ALL: u64 = u64::MAX;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    compat_features: U32,
    num_devices: U32,
    array_position: U32,
    events: U64,
    failed_devices: U64,
    disk_recovery_offset: U64,
    array_resync_offset: U64,
    level: U32,
    layout: U32,
    stripe_sectors: U32,
    flags: U32,
}

const _: () = assert!(size_of::<Raw>() == 64);

/// The size of the superblock at the start of a metadata image; the bitmap follows it (`dm_raid`'s
/// `bitmap_info.offset`).
pub(super) const BYTES: u64 = 512;
pub(super) const BITMAP_AT: u64 = 4096;

/// The functions that read and change the state of the copies.
pub(super) const CHANGE: Change = Change { get, set };

fn get(bytes: &[u8]) -> Option<(u64, Copies)> {
    let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
    let copies = match raw.array_resync_offset.get() {
        ALL => Copies::Alike,
        _ => Copies::PerhapsNot,
    };
    (raw.magic == MAGIC).then_some((raw.events.get(), copies))
}

fn set(bytes: &mut [u8], events: u64, copies: Copies) -> Option<()> {
    let (raw, _) = Raw::mut_from_prefix(bytes).ok()?;
    raw.events = events.into();
    raw.array_resync_offset = match copies {
        Copies::Alike => ALL,
        Copies::PerhapsNot => 0,
    }
    .into();
    (raw.magic == MAGIC).then_some(())
}

/// The superblock of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) position: u32,
    pub(super) events: u64,
    /// The bits of the first 64 images that failed.
    failed: u64,
    /// True if all of this image is up to date.
    recovered: bool,
    /// True if the images are in sync with each other and with their parity.
    pub(super) in_sync: bool,
    pub(super) reshaping: bool,
}

impl Superblock {
    /// Reads the superblock at the start of a metadata image; returns `None` if it has none yet.
    pub(super) fn read(device: &dyn BlockRead) -> Result<Option<Self>> {
        let bytes = read_within(device, 0, 512)?.unwrap_or_default();
        let raw = Raw::ref_from_prefix(&bytes).ok();
        Ok(raw.filter(|(raw, _)| raw.magic == MAGIC).map(|(raw, _)| {
            let has_flags = raw.compat_features.get() & HAS_FLAGS != 0;
            Self {
                position: raw.array_position.get(),
                events: raw.events.get(),
                failed: raw.failed_devices.get(),
                recovered: raw.disk_recovery_offset.get() == ALL,
                in_sync: raw.array_resync_offset.get() == ALL,
                reshaping: has_flags && raw.flags.get() & RESHAPING != 0,
            }
        }))
    }

    fn says_failed(&self, image: usize) -> bool {
        u32::try_from(image)
            .ok()
            .and_then(|image| self.failed.checked_shr(image))
            .is_some_and(|bits| bits & 1 == 1)
    }
}

/// The state of a RAID, from all its metadata images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RaidState {
    /// For each image, true if its data is up to date.
    pub(super) current: Vec<bool>,
    pub(super) in_sync: bool,
    pub(super) reshaping: bool,
}

impl RaidState {
    /// Returns true if all images are present and in sync, as writing requires.
    pub(super) fn is_whole(&self) -> bool {
        self.in_sync && self.current.iter().all(|current| *current)
    }

    /// Returns the state of a RAID without metadata: all images are up to date.
    pub(super) fn without_metadata(images: usize) -> Self {
        Self {
            current: vec![true; images],
            in_sync: false,
            reshaping: false,
        }
    }

    /// Computes the state by md's rules. An image that missed more than one change, failed or is
    /// not yet filled is out of date. Without any superblock the RAID was never in use, and all
    /// images are equally good.
    pub(super) fn of(superblocks: &[Option<Superblock>]) -> Self {
        let newest = superblocks.iter().flatten().max_by_key(|sb| sb.events);
        let Some(newest) = newest else {
            return Self::without_metadata(superblocks.len());
        };
        let current = superblocks.iter().enumerate().map(|(image, superblock)| {
            superblock.as_ref().is_some_and(|sb| {
                sb.events.saturating_add(1) >= newest.events
                    && sb.recovered
                    && usize::try_from(sb.position) == Ok(image)
                    && !newest.says_failed(image)
            })
        });
        Self {
            current: current.collect(),
            in_sync: newest.in_sync,
            reshaping: newest.reshaping,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_date_does_not_count() {
        let sound = |position| Superblock {
            position,
            events: 9,
            failed: 0,
            recovered: true,
            in_sync: true,
            reshaping: false,
        };
        let judge = |superblocks: &[Option<Superblock>]| RaidState::of(superblocks).current;
        let (a, b, c) = (sound(0), sound(1), sound(2));
        assert_eq!(judge(&[Some(a), Some(b), Some(c)]), [true; 3]);
        assert_eq!(judge(&[None, None]), [true; 2]);
        assert_eq!(judge(&[Some(a), None, Some(b)]), [true, false, false]);
        let old = |events| Superblock { events, ..b };
        assert_eq!(judge(&[Some(a), Some(old(8))]), [true, true]);
        assert_eq!(judge(&[Some(a), Some(old(7))]), [true, false]);
        let filling = Superblock {
            recovered: false,
            ..b
        };
        assert_eq!(judge(&[Some(a), Some(filling)]), [true, false]);
        let failed = Superblock { failed: 0b10, ..a };
        assert_eq!(judge(&[Some(failed), Some(old(8))]), [true, false]);
    }
}
