//! The superblock of a member of a Linux md array, `mdp_superblock_1`. Linux,
//! `include/uapi/linux/raid/md_p.h`; md(4), "MD SUPER BLOCK".

use diskfs_block::{BlockRead, Result, read_within};
use uuid::Uuid;
use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::superblock_0;
use crate::map::{Change, Copies};

/// The magic number, `MD_SB_MAGIC`.
pub(super) const MAGIC: u32 = 0xa92b_4efc;

/// The layout of a RAID0 that does not say how members of different sizes are used, as in the
/// kernel.
pub(super) const RAID0_LAYOUT_UNKNOWN: u32 = u32::MAX;

/// The feature flag for a RAID0 with a layout, `MD_FEATURE_RAID0_LAYOUT`.
const HAS_RAID0_LAYOUT: u32 = 4096;

/// The sector size of md, whatever the disk's sector size.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The length of the fixed part; a list of roles follows.
const FIXED_BYTES: usize = 256;

/// The number of bytes to read: the kernel reserves 4 KiB, in which up to 1,920 roles follow the
/// fixed part.
const SUPERBLOCK_BYTES: usize = 4096;

/// The offset that means "completely done".
const ALL: u64 = u64::MAX;

/// The known features, which do not change the location of data: a bitmap (1), a recovery offset
/// (2), a versioned bitmap (256), partial parity (1024, 2048), RAID0's layout (4096). Bad blocks
/// (8) are not among them: the member's data there is out of date.
const KNOWN_FEATURES: u32 = 1 | 2 | 256 | 1024 | 2048 | 4096;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: U32,
    major_version: U32,
    feature_map: U32,
    pad0: U32,
    set_uuid: [u8; 16],
    set_name: [u8; 32],
    ctime: U64,
    level: I32,
    layout: U32,
    size: U64,
    chunksize: U32,
    raid_disks: U32,
    bitmap_offset: I32,
    new_level: U32,
    reshape_position: U64,
    delta_disks: U32,
    new_layout: U32,
    new_chunk: U32,
    new_offset: U32,
    data_offset: U64,
    data_size: U64,
    super_offset: U64,
    recovery_offset: U64,
    dev_number: U32,
    cnt_corrected_read: U32,
    device_uuid: [u8; 16],
    devflags: u8,
    bblog_shift: u8,
    bblog_size: U16,
    bblog_offset: U32,
    utime: U64,
    events: U64,
    resync_offset: U64,
    sb_csum: U32,
    max_dev: U32,
    pad3: [u8; 32],
}

const _: () = assert!(size_of::<Raw>() == FIXED_BYTES);

/// A member of an array, as its superblock describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The UUID of the array.
    pub array: Uuid,
    /// The name of the array, often prefixed with the host's: `host:0`.
    pub name: String,
    /// The level of the array: -1 for linear, 0, 1, 4, 5, 6, 10.
    pub level: i32,
    /// The slot in the array; `None` for a spare or a failed member.
    pub role: Option<u16>,
    /// The number of members of the array.
    pub members: u32,
    /// The event count: how often the array's state was changed.
    pub events: u64,
    pub(super) layout: u32,
    pub(super) chunk_bytes: u64,
    /// The number of bytes that redundant levels use of each member.
    pub(super) used_bytes: u64,
    pub(super) data_start_bytes: u64,
    pub(super) data_bytes: u64,
    /// True if all of the member is up to date.
    pub(super) recovered: bool,
    /// True if the members are in sync with each other and with their parity.
    pub(super) in_sync: bool,
    /// The features that change the location of data, or are unknown.
    pub(super) features: u32,
    /// The number of the device in the array; a replacement device has another number.
    pub(super) number: usize,
    /// The roles of all devices, by their numbers.
    pub(super) roles: Vec<u16>,
    /// The location of the superblock, if it may be written.
    pub(super) written: Option<Written>,
}

/// The location of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) start_bytes: u64,
    pub(super) len_bytes: u64,
    /// The offset of the bitmap's superblock, if there is one.
    pub(super) bitmap: Option<u64>,
}

/// The feature flag for a bitmap, `MD_FEATURE_BITMAP_OFFSET`.
const HAS_BITMAP: u32 = 1;

/// The features with which writing is supported. Others require more bookkeeping of writes.
const WRITTEN_FEATURES: u32 = HAS_BITMAP | HAS_RAID0_LAYOUT;

/// The functions that read and change the state of the copies.
pub(super) const CHANGE: Change = Change { get, set };

fn get(bytes: &[u8]) -> Option<(u64, Copies)> {
    let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
    let copies = match raw.resync_offset.get() {
        ALL => Copies::Alike,
        _ => Copies::PerhapsNot,
    };
    (raw.magic.get() == MAGIC).then_some((raw.events.get(), copies))
}

fn set(bytes: &mut [u8], events: u64, copies: Copies) -> Option<()> {
    let (raw, _) = Raw::mut_from_prefix(bytes).ok()?;
    raw.events = events.into();
    raw.resync_offset = match copies {
        Copies::Alike => ALL,
        Copies::PerhapsNot => 0,
    }
    .into();
    let sum = checksum(bytes);
    let (raw, _) = Raw::mut_from_prefix(bytes).ok()?;
    raw.sb_csum = sum.into();
    (raw.magic.get() == MAGIC).then_some(())
}

fn written(raw: &Raw, start_bytes: u64, len_bytes: usize) -> Option<Written> {
    let features = raw.feature_map.get();
    let to_bitmap = i64::from(raw.bitmap_offset.get()).checked_mul(512)?;
    let bitmap = start_bytes.checked_add_signed(to_bitmap);
    let has_bitmap = features & HAS_BITMAP != 0;
    let written = Written {
        start_bytes,
        len_bytes: u64::try_from(len_bytes).ok()?,
        bitmap: bitmap.filter(|_| has_bitmap),
    };
    (features & !WRITTEN_FEATURES == 0).then_some(written)
}

impl Member {
    /// Reads the member on `device`; returns `None` if it is not one. Versions 1.1, 1.2, 1.0 and
    /// 0.90 are tried, in this order.
    ///
    /// # Errors
    /// Read errors of the device.
    pub fn read(device: &dyn BlockRead) -> Result<Option<Self>> {
        // The superblock of version 1.0 is 8 KiB before the end, at a multiple of 4 KiB.
        let last = device.size_bytes().checked_div(SECTOR_BYTES).unwrap_or(0);
        let last = last.saturating_sub(16) & !7;
        for sector in [0, 8, last] {
            let Some(offset) = sector.checked_mul(SECTOR_BYTES) else {
                continue;
            };
            if let Some(bytes) = read_within(device, offset, SUPERBLOCK_BYTES)?
                && let Some(found) = Self::from_bytes(&bytes, sector)
            {
                return Ok(Some(found));
            }
        }
        superblock_0::read(device)
    }

    fn from_bytes(bytes: &[u8], sector: u64) -> Option<Self> {
        let (raw, rest) = Raw::ref_from_prefix(bytes).ok()?;
        let sound = raw.magic.get() == MAGIC
            && raw.major_version.get() == 1
            && raw.super_offset.get() == sector;
        let roles_bytes = usize::try_from(raw.max_dev.get()).ok()?.checked_mul(2)?;
        let roles = rest.get(..roles_bytes).filter(|_| sound)?;
        let all_bytes = FIXED_BYTES.checked_add(roles_bytes)?;
        if checksum(bytes.get(..all_bytes)?) != raw.sb_csum.get() {
            return None;
        }
        let roles: Vec<u16> = roles
            .chunks_exact(2)
            .filter_map(|role| Some(u16::from_le_bytes(role.try_into().ok()?)))
            .collect();
        let number = usize::try_from(raw.dev_number.get()).ok()?;
        let role = roles.get(number).copied();
        let name = raw
            .set_name
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        let recovered = raw.feature_map.get() & 2 == 0 || raw.recovery_offset.get() == ALL;
        let features = raw.feature_map.get() & !KNOWN_FEATURES;
        Some(Self {
            array: Uuid::from_bytes(raw.set_uuid),
            name: String::from_utf8_lossy(name).into_owned(),
            level: raw.level.get(),
            role: role.filter(|role| u32::from(*role) < raw.raid_disks.get()),
            members: raw.raid_disks.get(),
            events: raw.events.get(),
            layout: if raw.level.get() == 0 && raw.feature_map.get() & HAS_RAID0_LAYOUT == 0 {
                RAID0_LAYOUT_UNKNOWN
            } else {
                raw.layout.get()
            },
            chunk_bytes: u64::from(raw.chunksize.get()).checked_mul(SECTOR_BYTES)?,
            used_bytes: raw.size.get().checked_mul(SECTOR_BYTES)?,
            data_start_bytes: raw.data_offset.get().checked_mul(SECTOR_BYTES)?,
            data_bytes: raw.data_size.get().checked_mul(SECTOR_BYTES)?,
            recovered,
            in_sync: raw.resync_offset.get() == ALL,
            features,
            number,
            roles,
            written: written(raw, sector.checked_mul(SECTOR_BYTES)?, all_bytes),
        })
    }
}

/// Returns the checksum as in `calc_sb_1_csum`: the sum of all words but itself, plus its carry.
fn checksum(bytes: &[u8]) -> u32 {
    const OWN_WORD: usize = 216 / 4;
    let words = bytes.chunks(4).enumerate();
    let words = words.filter(|(n, _)| *n != OWN_WORD);
    let sum = words.fold(0_u64, |sum, (_, word)| {
        let mut padded = [0; 4];
        padded
            .iter_mut()
            .zip(word)
            .for_each(|(to, from)| *to = *from);
        sum.wrapping_add(u32::from_le_bytes(padded).into())
    });
    let [low, high] = [sum & 0xffff_ffff, sum >> 32].map(|half| u32::try_from(half).unwrap_or(0));
    low.wrapping_add(high)
}
