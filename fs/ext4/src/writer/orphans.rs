//! Orphans: files without a name that are still held, and files whose deletion or truncation does
//! not fit into one transaction. After a crash, the next mount deletes or truncates them.
//!
//! An orphan is on a list, which begins at `s_last_orphan` and continues through `i_dtime` of the
//! inodes. With the feature `orphan_file`, its number is stored in a file instead
//! ([`orphan_file`]); if that file is full, the list is used.
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
pub(crate) use orphan_file::empty_block;
use orphan_file::{OrphanFile, Slot};

/// The known orphans.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    state: Mutex<KnownOrphans>,
}

#[derive(Debug, Default)]
struct KnownOrphans {
    places: HashMap<u32, OrphanPlace>,
    /// The list, oldest first; the superblock refers to the newest.
    list: BTreeMap<u64, u32>,
    file: Option<OrphanFile>,
    /// The number of orphans in the file.
    in_file: usize,
    /// The orphans that never had a name, and may still get one.
    unnamed: HashSet<u32>,
}

#[derive(Debug, Clone, Copy)]
enum OrphanPlace {
    /// On the list, with its key in `list`.
    List(u64),
    File(Slot),
}

impl Orphans {
    /// Reads the orphans that the filesystem has when it is opened.
    ///
    /// # Errors
    /// `Corrupt` if the list or the file is invalid; `Io`.
    pub(crate) fn open(volume: &Volume) -> Result<Self> {
        let mut state = KnownOrphans {
            file: OrphanFile::open(volume)?,
            ..KnownOrphans::default()
        };
        let numbers = list(volume)?;
        for (inode, key) in numbers.into_iter().rev().zip(0..) {
            state.places.insert(inode, OrphanPlace::List(key));
            state.list.insert(key, inode);
        }
        if let Some(file) = &state.file {
            let orphans = file.orphans(volume)?;
            state.in_file = orphans.len();
            for (inode, slot) in orphans {
                state.places.entry(inode).or_insert(OrphanPlace::File(slot));
            }
        }
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// The lock is held while the pool is changed. Poisoning is ignored: the guarded state follows
    /// the blocks, and those are consistent when a change returns.
    fn state(&self) -> MutexGuard<'_, KnownOrphans> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all orphans.
    pub(crate) fn all(&self) -> Vec<u32> {
        self.state().places.keys().copied().collect()
    }

    /// Returns true if there are no orphans.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().places.is_empty()
    }

    /// Returns true if an inode is an orphan.
    pub(crate) fn contains(&self, inode: u32) -> bool {
        self.state().places.contains_key(&inode)
    }

    /// Returns true if an inode is an orphan that never had a name.
    pub(crate) fn is_unnamed(&self, inode: u32) -> bool {
        self.state().unnamed.contains(&inode)
    }

    /// Adds an inode as an orphan that never had a name.
    ///
    /// # Errors
    /// Fails like [`add`](Self::add).
    pub(crate) fn add_unnamed(&self, handle: &Handle<'_>, inode: u32) -> Result<()> {
        self.add(handle, inode)?;
        self.state().unnamed.insert(inode);
        Ok(())
    }

    /// Adds an inode as an orphan, unless it is one already.
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
            state.places.insert(inode, OrphanPlace::File(slot));
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
        state.places.insert(inode, OrphanPlace::List(key));
        Ok(())
    }

    /// Removes an inode from the orphans. Its `i_dtime` is 0 afterwards.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn remove(&self, handle: &Handle<'_>, inode: u32) -> Result<()> {
        let mut state = self.state();
        match state.places.get(&inode).copied() {
            None => return Ok(()),
            Some(OrphanPlace::File(slot)) => {
                if let Some(file) = &mut state.file {
                    file.remove(handle, slot)?;
                }
                state.in_file = state.in_file.saturating_sub(1);
                if state.in_file == 0 {
                    handle.change_superblock(|raw| set_present(raw, false))?;
                }
            }
            Some(OrphanPlace::List(key)) => {
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

/// Sets or clears the feature `orphan_present`: whether the orphan file contains any. Linux sets it
/// from mount to unmount; but then e2fsck has something to repair after every crash.
fn set_present(raw: &mut RawSuperblock, present: bool) {
    let mut features = ReadOnlyCompatible::from_bits_retain(raw.s_feature_ro_compat.get());
    features.set(ReadOnlyCompatible::ORPHAN_PRESENT, present);
    raw.s_feature_ro_compat.set(features.bits());
}

/// Returns the list on the device, newest first.
fn list(volume: &Volume) -> Result<Vec<u32>> {
    let superblock = &volume.superblock;
    let mut numbers = Vec::new();
    let mut seen = HashSet::new();
    let mut next = superblock.last_orphan;
    while next != 0 {
        let sound = next >= superblock.first_inode && next <= superblock.inodes_count;
        // Each inode is on the list once, so the number of inodes bounds it.
        if !sound || !seen.insert(next) {
            let problem = "the orphan list refers to an inode that cannot be on it";
            return Err(
                malformed(Structure::Inode(next), problem).with_hint("run e2fsck on a copy")
            );
        }
        let Some(inode) = inode_table::read(volume, next)? else {
            let problem = "on the orphan list, although it is not in use";
            return Err(
                malformed(Structure::Inode(next), problem).with_hint("run e2fsck on a copy")
            );
        };
        numbers.push(next);
        next = inode.deleted;
    }
    Ok(numbers)
}
