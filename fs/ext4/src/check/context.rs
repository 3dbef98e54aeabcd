//! The state that all phases of a check share.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::attributes::ValueInodes;
use super::block_set::BlockSet;
use super::budget::Budget;
use super::encryption::Policies;
use super::finding::{FindingKind, FindingPlace};
use super::groups::Group;
use super::inode_states::InodeStates;
use super::quota::Quota;
use super::report::Findings;
use crate::allocator::Geometry;
use crate::bytes::index;
use crate::error::{Error, ErrorKind, Result};
use crate::superblock::Superblock;
use crate::volume::Volume;

/// The state of a check.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) volume: &'a Volume,
    pub(super) geometry: Geometry,
    pub(super) groups: Vec<Group>,
    pub(super) budget: &'a Budget,
    pub(super) findings: &'a Findings,
    pub(super) inodes: InodeStates,
    /// The clusters that have an owner.
    pub(super) claimed: BlockSet,
    /// The clusters that have more than one owner.
    pub(super) twice: BlockSet,
    /// The blocks of trees that were read: each is read once, however many inodes refer to it.
    pub(super) trees: BlockSet,
    /// The inodes that recovery will delete or truncate.
    pub(super) orphans: HashSet<u32>,
    pub(super) references: References,
    /// The defective blocks, if there are some.
    pub(super) defective: OnceLock<BlockSet>,
    /// The usage for the quota files.
    pub(super) quota: Quota,
    pub(super) policies: Policies,
    pub(super) progress: Progress,
}

impl Context<'_> {
    pub(super) fn superblock(&self) -> &Superblock {
        &self.volume.superblock
    }

    /// Returns true if an inode is in a defective block, and must be left out.
    pub(super) fn is_in_defective_block(&self, inode: u32) -> bool {
        let blocks = self.defective.get();
        blocks.is_some_and(|blocks| self.is_defective(inode, blocks))
    }

    /// Returns true if an inode is in one of `blocks`.
    pub(super) fn is_defective(&self, inode: u32, blocks: &BlockSet) -> bool {
        let Some((group, nth)) = self.geometry.inode_place(inode) else {
            return false;
        };
        let Some(group) = self.groups.get(index(group)) else {
            return false;
        };
        let superblock = self.superblock();
        let offset = u64::from(nth).saturating_mul(u64::from(superblock.inode_size));
        let nth_block = offset.wrapping_shr(superblock.block_size.bits());
        let block = group.descriptor.inode_table.after(nth_block);
        superblock.holds(block, 1) && blocks.within(block, 1).clusters > 0
    }

    /// Adds a finding.
    pub(super) fn found(&self, kind: FindingKind, place: FindingPlace, detail: impl Into<String>) {
        self.findings.add(kind, place, detail);
    }

    /// Adds a finding in an inode.
    pub(super) fn found_in(&self, kind: FindingKind, inode: u32, detail: impl Into<String>) {
        self.found(kind, FindingPlace::inode(inode), detail);
    }
}

/// A block of attributes that inodes share, or an inode with a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Referenced {
    /// The number of references that were found.
    pub(super) found: u64,
    /// The stored number of references, if there is one.
    pub(super) stored: Option<u64>,
    /// The values in inodes, which each owner counts as its own.
    pub(super) values: ValueInodes,
}

/// The references to blocks of attributes and to inodes with values.
#[derive(Debug, Default)]
pub(super) struct References {
    blocks: Mutex<BTreeMap<u64, Referenced>>,
    inodes: Mutex<BTreeMap<u32, Referenced>>,
}

impl References {
    /// Returns the blocks of attributes.
    pub(super) fn blocks(&self) -> MutexGuard<'_, BTreeMap<u64, Referenced>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the inodes with values.
    pub(super) fn inodes(&self) -> MutexGuard<'_, BTreeMap<u32, Referenced>> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of a phase, and the request to stop.
#[derive(Debug, Default)]
pub(super) struct Progress {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// Notes that a unit of work is done.
    ///
    /// # Errors
    /// `Cancelled` after [`stop`](Self::stop).
    pub(super) fn advance(&self) -> Result<()> {
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) {
            return Err(cancelled());
        }
        Ok(())
    }

    /// Returns the number of units that are done.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Begins a phase.
    pub(super) fn restart(&self) {
        self.done.store(0, Ordering::Relaxed);
    }

    /// Makes all threads stop.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns the error of a check that the caller stopped.
pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the check was cancelled")
}
