//! The replay of log trees into memory.
//!
//! After a crash, the log trees have what was synced since the last transaction. A kernel replays
//! them when it mounts the filesystem; here the result is kept as [`Changes`] of trees. The order
//! of the steps is Linux's (`btrfs_recover_log_trees`), since later steps see what earlier ones
//! have changed.

mod budget;
mod checksums;
mod deletions;
mod drop_extents;
mod entries;
mod extents;
mod fixup;
mod inode;
mod inodes;
mod links;
mod names;
mod records;
mod references;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::budget::Budget;
use self::names::DirName;
use self::records::Records;
use crate::changes::Changes;
use crate::cursor::Tree;
use crate::error::Result;
use crate::key::{Key, item};
use crate::root_item::RootItem;
use crate::tree_root::{TreeRoot, tree};
use crate::volume::Volume;

/// The type of the items that say which part of a directory's index is in the log
/// (`BTRFS_DIR_LOG_INDEX_KEY`).
const DIR_LOG_INDEX: u8 = 72;

/// The result of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The items that the replay changes.
    pub(crate) changes: Changes,
    /// Notes for the filesystem's identity.
    pub(crate) notes: Vec<String>,
}

/// Replays the log trees of `root`, the tree of their roots, over the trees of `volume`.
///
/// # Errors
/// `Unsupported` if the log is too large, or has something that only a kernel can replay.
pub(crate) fn replay(volume: &Volume, root: TreeRoot) -> Result<Replayed> {
    let budget = Budget::new();
    let mut replayed = Replayed::default();
    let mut checksums = volume
        .checksums
        .clone()
        .map(|tree| Records::new(volume, tree, &budget));
    for (id, log_root) in log_roots(volume, root, &budget)? {
        let root = volume.root_item(id)?.filter(|root| root.refs > 0);
        let Some(root) = root.map(|item| item.root) else {
            // The subvolume was deleted after its last fsync.
            continue;
        };
        let mut replay = Replay::new(volume, log_root, root, &budget);
        replay.run()?;
        if let Some(checksums) = &mut checksums {
            replay.add_checksums(checksums)?;
        }
        if let Some(changes) = replay.subvolume.into_changes() {
            *replayed.changes.of_tree_mut(id) = Arc::unwrap_or_clone(changes);
        }
    }
    if let Some(changes) = checksums.and_then(Records::into_changes) {
        *replayed.changes.of_tree_mut(tree::CSUM) = Arc::unwrap_or_clone(changes);
    }
    replayed
        .notes
        .push("log tree replayed in memory".to_owned());
    Ok(replayed)
}

/// Returns the root of each subvolume's log tree, with the ID of the subvolume.
///
/// # Errors
/// `Corrupt` if a log tree belongs to something else than a subvolume.
fn log_roots(volume: &Volume, root: TreeRoot, budget: &Budget) -> Result<Vec<(u64, TreeRoot)>> {
    let sector_bytes = volume.superblock().sector_bytes;
    let tree = Tree {
        root,
        changes: None,
    };
    let mut roots = Vec::new();
    let first = Key::new(tree::LOG, item::ROOT_ITEM, 0);
    volume.each(&tree, first, |found| {
        let id = found.key.offset;
        if !tree::is_subvolume(id) {
            return Err(found.invalid(&format!("log tree of tree {id}, which has no files")));
        }
        budget.spend_step(found.bytes().len())?;
        budget.spend_memory(0)?;
        roots.push((id, RootItem::parse(found, sector_bytes)?.root));
        Ok(())
    })?;
    Ok(roots)
}

/// The replay of one subvolume's log.
#[derive(Debug)]
struct Replay<'a> {
    log: Records<'a>,
    subvolume: Records<'a>,
    budget: &'a Budget,
    /// The inodes whose link counts are counted at the end.
    fixups: BTreeSet<u64>,
    /// The generation of the transaction that a kernel would replay the log in.
    generation: u64,
    has_holes: bool,
}

/// The passes over the log tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// All inodes exist after this stage, and deleted names don't.
    Inodes,
    /// Names of inodes that are not in the log.
    Entries,
    /// Names of logged inodes, attributes and extents.
    All,
}

impl<'a> Replay<'a> {
    fn new(volume: &'a Volume, log: TreeRoot, subvolume: TreeRoot, budget: &'a Budget) -> Self {
        /// `BTRFS_FEATURE_INCOMPAT_NO_HOLES`.
        const NO_HOLES: u64 = 1 << 9;
        let tree = |root| Tree {
            root,
            changes: None,
        };
        let superblock = volume.superblock();
        Self {
            log: Records::new(volume, tree(log), budget),
            subvolume: Records::new(volume, tree(subvolume), budget),
            budget,
            fixups: BTreeSet::new(),
            generation: superblock.generation.saturating_add(1),
            has_holes: superblock.incompat & NO_HOLES == 0,
        }
    }

    fn run(&mut self) -> Result<()> {
        for stage in [Stage::Inodes, Stage::Entries, Stage::All] {
            self.run_stage(stage)?;
        }
        self.fix_links()
    }

    fn run_stage(&mut self, stage: Stage) -> Result<()> {
        let mut ignored = None;
        let mut next = Some(Key::default());
        while let Some(first) = next {
            let Some((key, bytes)) = self.log.next_of_any(first)? else {
                break;
            };
            next = successor(key);
            if key.item_type == item::INODE_ITEM && self.is_nameless(key)? {
                // A file that was made without a name (O_TMPFILE): a kernel would delete it.
                ignored = Some(key.object_id);
            }
            if ignored != Some(key.object_id) {
                self.replay_item(stage, key, &bytes)?;
            }
        }
        Ok(())
    }

    fn is_nameless(&self, key: Key) -> Result<bool> {
        let inode = self.log.inode(key.object_id)?;
        Ok(inode.is_some_and(|inode| inode.links() == 0))
    }

    fn replay_item(&mut self, stage: Stage, key: Key, bytes: &[u8]) -> Result<()> {
        match (stage, key.item_type) {
            (Stage::Inodes, item::INODE_ITEM) => self.replay_inode(key.object_id),
            (Stage::Entries, item::DIR_INDEX) => self.replay_entries(key, bytes),
            (Stage::All, item::XATTR_ITEM) => self.subvolume.set(key, bytes.to_vec()),
            (Stage::All, item::INODE_REF | item::INODE_EXTREF) => self.replay_refs(key, bytes),
            (Stage::All, item::EXTENT_DATA) => self.replay_extent(key, bytes),
            _ => Ok(()),
        }
    }

    /// Removes an entry of a directory, and lets the links of its inode be counted.
    fn remove_entry(&mut self, dir: u64, entry: &DirName) -> Result<()> {
        let inode = entry.location.object_id;
        if entry.location.item_type != item::INODE_ITEM {
            return Err(crate::error::unsupported(
                "log tree of btrfs that removes a subvolume",
            ));
        }
        self.subvolume.existing_inode(inode)?;
        self.fix_later(inode)?;
        self.subvolume.unlink(dir, inode, &entry.name)
    }

    /// Lets the links of an inode be counted at the end.
    fn fix_later(&mut self, inode: u64) -> Result<()> {
        if self.fixups.insert(inode) {
            self.budget.spend_memory(0)?;
        }
        Ok(())
    }
}

/// Returns the key after `key`; `None` after the last.
fn successor(key: Key) -> Option<Key> {
    let Key {
        object_id,
        item_type,
        offset,
    } = key;
    if let Some(offset) = offset.checked_add(1) {
        return Some(Key::new(object_id, item_type, offset));
    }
    match item_type.checked_add(1) {
        Some(item_type) => Some(Key::new(object_id, item_type, 0)),
        None => Some(Key::new(object_id.checked_add(1)?, 0, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_successors() {
        let after =
            |object_id, item_type, offset| successor(Key::new(object_id, item_type, offset));
        assert_eq!(after(1, 2, 3), Some(Key::new(1, 2, 4)));
        assert_eq!(after(1, 2, u64::MAX), Some(Key::new(1, 3, 0)));
        assert_eq!(after(1, u8::MAX, u64::MAX), Some(Key::new(2, 0, 0)));
        assert_eq!(after(u64::MAX, u8::MAX, u64::MAX), None);
    }
}
