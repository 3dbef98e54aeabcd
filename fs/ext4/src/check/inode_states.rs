//! The state of each inode during a check, in one byte: its type, and how many of its links were
//! not found yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use diskfs_vfs::FileType;

use super::budget::Budget;
use crate::allocator::Geometry;
use crate::bytes::index;
use crate::error::Result;

/// The bits of the type.
const TYPE: u8 = 0x7;
/// Set in the byte of an inode in use.
const IN_USE: u8 = 0x8;
/// The number of links that were not found yet is in the upper four bits.
const LINKS_SHIFT: u32 = 4;
/// The value of those bits if the number is in a map: it does not fit, or is negative.
const LINKS_MAPPED: u8 = 0xf;

/// The states of all inodes.
#[derive(Debug)]
pub(super) struct InodeStates {
    geometry: Geometry,
    groups: Vec<OnceLock<Box<[AtomicU8]>>>,
    /// The numbers of missing links that do not fit into the byte.
    mapped: Mutex<HashMap<u32, i64>>,
}

/// The state of an inode that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InodeState {
    /// The type, or `None` if the mode has an unknown one.
    pub(super) file_type: Option<FileType>,
}

impl InodeStates {
    pub(super) fn new(geometry: Geometry, budget: &Budget) -> Result<Self> {
        let groups = index(geometry.groups);
        budget.take::<OnceLock<Box<[AtomicU8]>>>(groups)?;
        let groups = std::iter::repeat_with(OnceLock::new).take(groups);
        Ok(Self {
            geometry,
            groups: groups.collect(),
            mapped: Mutex::default(),
        })
    }

    /// Makes room for the first `inodes` inodes of a group.
    pub(super) fn prepare(&self, group: u32, inodes: u32, budget: &Budget) -> Result<()> {
        budget.take::<AtomicU8>(index(inodes))?;
        if let Some(place) = self.groups.get(index(group)) {
            place.get_or_init(|| {
                let states = std::iter::repeat_with(AtomicU8::default);
                states.take(index(inodes)).collect()
            });
        }
        Ok(())
    }

    /// Notes that an inode is in use.
    pub(super) fn set(
        &self,
        inode: u32,
        file_type: Option<FileType>,
        links: u16,
        budget: &Budget,
    ) -> Result<()> {
        let links = match u8::try_from(links) {
            Ok(links) if links < LINKS_MAPPED => links,
            _ => {
                budget.take::<(u32, i64, u64)>(1)?;
                self.mapped().insert(inode, i64::from(links));
                LINKS_MAPPED
            }
        };
        let state = IN_USE | encode(file_type) | links.wrapping_shl(LINKS_SHIFT);
        if let Some(byte) = self.byte(inode) {
            byte.store(state, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the state of an inode, or `None` if it is not in use.
    pub(super) fn get(&self, inode: u32) -> Option<InodeState> {
        let state = self.byte(inode)?.load(Ordering::Relaxed);
        (state & IN_USE != 0).then(|| InodeState {
            file_type: decode(state & TYPE),
        })
    }

    /// Notes that a name of an inode was found.
    pub(super) fn found_link(&self, inode: u32, budget: &Budget) -> Result<()> {
        let Some(byte) = self.byte(inode) else {
            return Ok(());
        };
        let less = |state: u8| {
            let links = state.wrapping_shr(LINKS_SHIFT);
            let low = state & (TYPE | IN_USE);
            match links {
                LINKS_MAPPED => None,
                0 => Some(low | LINKS_MAPPED.wrapping_shl(LINKS_SHIFT)),
                links => Some(low | links.saturating_sub(1).wrapping_shl(LINKS_SHIFT)),
            }
        };
        let before = byte.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let in_byte = before.is_ok_and(|state| state.wrapping_shr(LINKS_SHIFT) != 0);
        if !in_byte {
            budget.take::<(u32, i64, u64)>(usize::from(before.is_ok()))?;
            let mut mapped = self.mapped();
            let missing = mapped.entry(inode).or_insert(0);
            *missing = missing.saturating_sub(1);
        }
        Ok(())
    }

    /// Returns the number of links that were not found; it is negative if there are too many names.
    pub(super) fn missing_links(&self, inode: u32) -> i64 {
        let state = self
            .byte(inode)
            .map_or(0, |byte| byte.load(Ordering::Relaxed));
        match state.wrapping_shr(LINKS_SHIFT) {
            LINKS_MAPPED => self.mapped().get(&inode).copied().unwrap_or(0),
            links => i64::from(links),
        }
    }

    /// Returns the bits of a group's inodes that are in use, in words of a bitmap.
    pub(super) fn words(&self, group: u32) -> Vec<u64> {
        let mut words = vec![0; index(self.geometry.inodes_per_group.div_ceil(u64::BITS))];
        for (word, states) in words.iter_mut().zip(self.states(group).chunks(64)) {
            for (bit, state) in states.iter().enumerate() {
                if state.load(Ordering::Relaxed) & IN_USE != 0 {
                    *word |= 1u64.wrapping_shl(u32::try_from(bit).unwrap_or(0));
                }
            }
        }
        words
    }

    /// Returns the numbers of a group's inodes that are in use and have missing links or too many
    /// names.
    pub(super) fn miscounted(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let numbered = (0u32..).zip(self.states(group));
        let suspect = numbered.filter(|(_, state)| {
            let state = state.load(Ordering::Relaxed);
            state & IN_USE != 0 && state.wrapping_shr(LINKS_SHIFT) != 0
        });
        let numbers = suspect.map(move |(nth, _)| self.geometry.inode_number(group, nth));
        numbers.filter(|&inode| self.missing_links(inode) != 0)
    }

    /// Returns the number of directories of a group.
    pub(super) fn directories(&self, group: u32) -> u32 {
        let directory = IN_USE | encode(Some(FileType::Directory));
        let is_directory =
            |state: &&AtomicU8| state.load(Ordering::Relaxed) & (IN_USE | TYPE) == directory;
        let count = self.states(group).iter().filter(is_directory).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn states(&self, group: u32) -> &[AtomicU8] {
        let states = self.groups.get(index(group)).and_then(OnceLock::get);
        states.map(AsRef::as_ref).unwrap_or_default()
    }

    fn byte(&self, inode: u32) -> Option<&AtomicU8> {
        let (group, nth) = self.geometry.inode_place(inode)?;
        self.states(group).get(index(nth))
    }

    fn mapped(&self) -> MutexGuard<'_, HashMap<u32, i64>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of a type: that of directory entries.
pub(super) const fn encode(file_type: Option<FileType>) -> u8 {
    match file_type {
        None => 0,
        Some(FileType::Regular) => 1,
        Some(FileType::Directory) => 2,
        Some(FileType::CharacterDevice) => 3,
        Some(FileType::BlockDevice) => 4,
        Some(FileType::Fifo) => 5,
        Some(FileType::Socket) => 6,
        Some(FileType::Symlink) => 7,
    }
}

const fn decode(number: u8) -> Option<FileType> {
    Some(match number {
        1 => FileType::Regular,
        2 => FileType::Directory,
        3 => FileType::CharacterDevice,
        4 => FileType::BlockDevice,
        5 => FileType::Fifo,
        6 => FileType::Socket,
        7 => FileType::Symlink,
        _ => return None,
    })
}
