//! Files that are to go away, or to be cut, and can't be in one transaction: whoever opens the
//! filesystem after a crash finishes it.
//!
//! An orphan is either on a list, which begins at `s_last_orphan` and goes on through `i_dtime` of
//! the inodes, or, with the feature `orphan_file`, its number stands in a file of them
//! ([`orphan_file`]). A file that is full gives way to the list.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Orphan file"; for
//! the list, section "Super Block", `s_last_orphan`.

mod orphan_file;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Result, Structure, malformed};
use crate::features::ReadOnlyCompatible;
use crate::inode_table;
use crate::superblock::RawSuperblock;
use crate::volume::Volume;

use crate::handle::Handle;
use orphan_file::{OrphanFile, Slot};

/// The orphans that are known to be.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    places: HashMap<u32, Place>,
    /// The list, oldest first; the newest is what the superblock names.
    list: BTreeMap<u64, u32>,
    file: Option<OrphanFile>,
    /// How many are in it.
    in_file: usize,
    /// Those that never had a name, and may get one.
    unnamed: HashSet<u32>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// By its key in `list`.
    List(u64),
    File(Slot),
}

impl Orphans {
    /// Those that the filesystem has when it is opened.
    ///
    /// # Errors
    /// `Corrupt` when the list or the file makes no sense; `Io`.
    pub(crate) fn open(volume: &Volume) -> Result<Self> {
        let mut state = State {
            file: OrphanFile::open(volume)?,
            ..State::default()
        };
        let numbers = list(volume)?;
        for (inode, key) in numbers.into_iter().rev().zip(0..) {
            state.places.insert(inode, Place::List(key));
            state.list.insert(key, inode);
        }
        if let Some(file) = &state.file {
            let orphans = file.orphans(volume)?;
            state.in_file = orphans.len();
            for (inode, slot) in orphans {
                state.places.entry(inode).or_insert(Place::File(slot));
            }
        }
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Held while the pool is changed; what it guards follows the blocks, and those are whole when
    /// a change returns.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<u32> {
        self.state().places.keys().copied().collect()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().places.is_empty()
    }

    /// Whether an inode is one.
    pub(crate) fn contains(&self, inode: u32) -> bool {
        self.state().places.contains_key(&inode)
    }

    /// Whether it never had a name.
    pub(crate) fn is_unnamed(&self, inode: u32) -> bool {
        self.state().unnamed.contains(&inode)
    }

    /// Makes an inode an orphan that never had a name.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(crate) fn add_unnamed(&self, handle: &Handle<'_>, inode: u32) -> Result<()> {
        self.add(handle, inode)?;
        self.state().unnamed.insert(inode);
        Ok(())
    }

    /// Makes an inode an orphan; it stays one if it is.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn add(&self, handle: &Handle<'_>, inode: u32) -> Result<()> {
        let mut state = self.state();
        if state.places.contains_key(&inode) {
            return Ok(());
        }
        if let Some(file) = &mut state.file
            && let Some(slot) = file.add(handle, inode)?
        {
            state.places.insert(inode, Place::File(slot));
            state.in_file = state.in_file.saturating_add(1);
            if state.in_file == 1 {
                handle.change_superblock(|raw| set_present(raw, true))?;
            }
            return Ok(());
        }
        let newest = state.list.last_key_value();
        let next = newest.map_or(0, |(_, &inode)| inode);
        let key = newest.map_or(0, |(key, _)| key.saturating_add(1));
        handle.set_deleted(inode, next)?;
        handle.change_superblock(|raw| raw.s_last_orphan.set(inode))?;
        state.list.insert(key, inode);
        state.places.insert(inode, Place::List(key));
        Ok(())
    }

    /// Makes an inode no orphan. Its `i_dtime` is 0 then, whatever it was used for.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn remove(&self, handle: &Handle<'_>, inode: u32) -> Result<()> {
        let mut state = self.state();
        match state.places.get(&inode).copied() {
            None => return Ok(()),
            Some(Place::File(slot)) => {
                if let Some(file) = &mut state.file {
                    file.remove(handle, slot)?;
                }
                state.in_file = state.in_file.saturating_sub(1);
                if state.in_file == 0 {
                    handle.change_superblock(|raw| set_present(raw, false))?;
                }
            }
            Some(Place::List(key)) => {
                let older = state.list.range(..key).next_back();
                let older = older.map_or(0, |(_, &inode)| inode);
                let newer = state.list.range(key.saturating_add(1)..).next();
                match newer.map(|(_, &inode)| inode) {
                    Some(newer) => handle.set_deleted(newer, older)?,
                    None => handle.change_superblock(|raw| raw.s_last_orphan.set(older))?,
                }
                handle.set_deleted(inode, 0)?;
                state.list.remove(&key);
            }
        }
        state.places.remove(&inode);
        state.unnamed.remove(&inode);
        Ok(())
    }
}

/// Says whether the orphan file holds any. Linux sets it from mount to unmount; but then e2fsck has
/// something to repair after every crash.
fn set_present(raw: &mut RawSuperblock, present: bool) {
    let mut features = ReadOnlyCompatible::from_bits_retain(raw.s_feature_ro_compat.get());
    features.set(ReadOnlyCompatible::ORPHAN_PRESENT, present);
    raw.s_feature_ro_compat.set(features.bits());
}

/// The list as the device has it, newest first.
fn list(volume: &Volume) -> Result<Vec<u32>> {
    let superblock = &volume.superblock;
    let mut numbers = Vec::new();
    let mut seen = HashSet::new();
    let mut next = superblock.last_orphan;
    while next != 0 {
        let sound = next >= superblock.first_inode && next <= superblock.inodes_count;
        // Each inode is on it once, so the filesystem's inodes bound it.
        if !sound || !seen.insert(next) {
            let problem = "the orphan list goes through an inode that can't be on it";
            return Err(malformed(Structure::Inode(next), problem)
                .with_hint("let e2fsck repair the image, on a copy"));
        }
        let Some(inode) = inode_table::read(volume, next)? else {
            let problem = "it is on the orphan list and not in use";
            return Err(malformed(Structure::Inode(next), problem)
                .with_hint("let e2fsck repair the image, on a copy"));
        };
        numbers.push(next);
        next = inode.deleted;
    }
    Ok(numbers)
}
