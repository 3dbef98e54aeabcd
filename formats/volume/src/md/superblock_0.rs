//! The superblock of version 0.90 at the end of a member, `mdp_super_t`. Linux,
//! `include/uapi/linux/raid/md_p.h`. It has the byte order of the machine that wrote it; only that
//! of x86 and ARM is supported.

use diskfs_block::{BlockRead, Result, read_within};
use uuid::Uuid;
use zerocopy::little_endian::U32;

use super::superblock::{MAGIC, Member, RAID0_LAYOUT_UNKNOWN};

/// The length of the superblock, `MD_SB_BYTES`, and the number of its words.
const SUPERBLOCK_BYTES: usize = 4096;

/// The reserved size, `MD_RESERVED_BYTES`: the superblock is at the last multiple of it that has as
/// many bytes after it.
const RESERVED_BYTES: u64 = 64 << 10;

/// The largest number of members with a descriptor (`MD_SB_DISKS`).
const MAX_DISKS: usize = 27;

/// The bits of states: `MD_SB_CLEAN` and `MD_DISK_FAULTY`, `MD_DISK_ACTIVE`, `MD_DISK_SYNC`.
const CLEAN: u32 = 1;
const FAULTY: u32 = 1;
const ACTIVE_AND_SYNC: u32 = 2 | 4;

/// The words of the superblock, by their names in the kernel.
mod word {
    pub(super) const MAGIC: usize = 0;
    pub(super) const MAJOR: usize = 1;
    pub(super) const MINOR: usize = 2;
    pub(super) const SET_UUID: [usize; 4] = [5, 13, 14, 15];
    pub(super) const LEVEL: usize = 7;
    pub(super) const SIZE: usize = 8;
    pub(super) const RAID_DISKS: usize = 10;
    pub(super) const MD_MINOR: usize = 11;
    pub(super) const STATE: usize = 33;
    pub(super) const CSUM: usize = 38;
    pub(super) const EVENTS: [usize; 2] = [39, 40];
    pub(super) const LAYOUT: usize = 64;
    pub(super) const CHUNK_SIZE: usize = 65;
    pub(super) const DISKS: usize = 128;
    pub(super) const THIS_DISK: usize = 992;
}

/// The words of a disk's descriptor, of which there are 32.
mod disk_word {
    pub(super) const COUNT: usize = 32;
    pub(super) const NUMBER: usize = 0;
    pub(super) const RAID_DISK: usize = 3;
    pub(super) const STATE: usize = 4;
}

/// Reads the member on `device`, if it has this superblock.
pub(super) fn read(device: &dyn BlockRead) -> Result<Option<Member>> {
    let last = device.size_bytes() & !(RESERVED_BYTES.saturating_sub(1));
    let Some(offset) = last.checked_sub(RESERVED_BYTES) else {
        return Ok(None);
    };
    let bytes = read_within(device, offset, SUPERBLOCK_BYTES)?;
    Ok(bytes.and_then(|bytes| Words(&bytes).member(offset)))
}

struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn get(&self, index: usize) -> u32 {
        let word = self.0.chunks_exact(4).nth(index);
        let word = word.and_then(<[u8]>::first_chunk);
        word.map_or(0, |bytes| U32::from_bytes(*bytes).get())
    }

    /// Checks the checksum as in `calc_sb_csum`: the sum of all words but itself, plus its carry.
    fn is_sound(&self) -> bool {
        let others = (0..SUPERBLOCK_BYTES / 4).filter(|index| *index != word::CSUM);
        let sum: u64 = others.map(|index| u64::from(self.get(index))).sum();
        let folded = (sum & 0xffff_ffff).wrapping_add(sum >> 32) & 0xffff_ffff;
        folded == u64::from(self.get(word::CSUM))
    }

    fn member(&self, offset: u64) -> Option<Member> {
        let is_it = self.get(word::MAGIC) == MAGIC && self.get(word::MAJOR) == 0;
        if !is_it || !self.is_sound() {
            return None;
        }
        let level = i32::from_le_bytes(self.get(word::LEVEL).to_le_bytes());
        let number = self.get(word::THIS_DISK.saturating_add(disk_word::NUMBER));
        let number = usize::try_from(number).ok()?;
        let roles: Vec<u16> = (0..MAX_DISKS).map(|disk| self.role(disk)).collect();
        let members = self.get(word::RAID_DISKS);
        let role = roles.get(number).copied();
        let [low, high] = word::EVENTS.map(|index| u64::from(self.get(index)));
        let uuid = word::SET_UUID.map(|index| self.get(index).to_be_bytes());
        Some(Member {
            array: Uuid::from_slice(&uuid.concat()).ok()?,
            // The only name is the number that the kernel gave it.
            name: self.get(word::MD_MINOR).to_string(),
            level,
            role: role.filter(|role| u32::from(*role) < members),
            members,
            events: (high << 32) | low,
            layout: match level {
                0 => RAID0_LAYOUT_UNKNOWN,
                _ => self.get(word::LAYOUT),
            },
            chunk_bytes: u64::from(self.get(word::CHUNK_SIZE)),
            used_bytes: u64::from(self.get(word::SIZE)) << 10,
            data_start_bytes: 0,
            data_bytes: offset,
            recovered: true,
            in_sync: self.get(word::STATE) & CLEAN != 0,
            // Version 0.91 marks a reshape.
            features: u32::from(self.get(word::MINOR) > 90),
            number,
            roles,
            written: None,
        })
    }

    /// Returns the role of a disk; for a failed or spare one a number that is no member's.
    fn role(&self, disk: usize) -> u16 {
        let start = disk.saturating_mul(disk_word::COUNT);
        let start = start.saturating_add(word::DISKS);
        let get = |index: usize| self.get(start.saturating_add(index));
        let state = get(disk_word::STATE);
        if state & FAULTY != 0 || state & ACTIVE_AND_SYNC != ACTIVE_AND_SYNC {
            return u16::MAX;
        }
        u16::try_from(get(disk_word::RAID_DISK)).unwrap_or(u16::MAX)
    }
}
