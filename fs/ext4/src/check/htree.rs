//! The index of a directory: each leaf has the names whose hashes its entry covers, and each block
//! is referred to once.

use std::collections::BTreeMap;

use super::context::Context;
use super::finding::{FindingKind, FindingPlace};
use super::scan::Directory;
use crate::block::{FileBlock, FsBlock};
use crate::checksum::ChecksumSeed;
use crate::directory::{hashed, htree_directory_of};
use crate::htree::{self, Hasher, IndexRoot, index_block, index_root, is_node};
use crate::inode::InodeFlags;
use crate::superblock::Superblock;

/// The index of a directory, as far as its blocks were read.
#[derive(Debug)]
pub(super) struct Index {
    htree: htree::Directory,
    is_casefolded: bool,
    root: Option<IndexRoot>,
    hasher: Option<Hasher>,
    /// The tables of the index blocks, by file block.
    tables: BTreeMap<u32, Vec<(u32, FileBlock)>>,
    leaves: BTreeMap<u32, Leaf>,
}

/// The hashes of the names in a leaf.
#[derive(Debug, Clone, Copy)]
struct Leaf {
    lowest: u32,
    highest: u32,
    is_referenced: bool,
}

impl Default for Leaf {
    /// Returns a leaf without names.
    fn default() -> Self {
        Self {
            lowest: u32::MAX,
            highest: 0,
            is_referenced: false,
        }
    }
}

impl Index {
    pub(super) fn new(
        superblock: &Superblock,
        directory: &Directory,
        seed: Option<ChecksumSeed>,
    ) -> Self {
        Self {
            htree: htree_directory_of(superblock, directory.inode, seed),
            is_casefolded: directory.flags.contains(InodeFlags::CASEFOLD),
            root: None,
            hasher: None,
            tables: BTreeMap::new(),
            leaves: BTreeMap::new(),
        }
    }

    /// Adds a block. Returns true if it is the root or an index block.
    pub(super) fn add_block(
        &mut self,
        context: &Context<'_>,
        directory: &Directory,
        file_block: u32,
        block: FsBlock,
        bytes: &[u8],
    ) -> bool {
        let place = || FindingPlace::inode(directory.inode).with_block(block.0);
        if file_block == 0 {
            match index_root(&self.htree, bytes) {
                Ok(root) => {
                    self.hasher = root.algorithm.map(|algorithm| Hasher {
                        algorithm,
                        sign: self.htree.sign,
                        seed: self.htree.seed,
                    });
                    self.root = Some(root);
                }
                Err(e) => {
                    context.found(FindingKind::HtreeBlock, place(), e.to_string());
                    return false;
                }
            }
        } else if !is_node(&self.htree, bytes) {
            self.leaves.insert(file_block, Leaf::default());
            return false;
        }
        match index_block(&self.htree, FileBlock(file_block), bytes) {
            Ok(table) => {
                if !table.is_checksum_valid {
                    let detail = format!("the checksum of htree block {file_block} does not match");
                    context.found(FindingKind::HtreeChecksum, place(), detail);
                }
                self.tables.insert(file_block, table.entries);
                true
            }
            // An empty leaf without a checksum begins like an index block.
            Err(_) if file_block != 0 && self.htree.checksum.is_none() => {
                self.leaves.insert(file_block, Leaf::default());
                false
            }
            Err(e) => {
                context.found(FindingKind::HtreeBlock, place(), e.to_string());
                file_block != 0
            }
        }
    }

    /// Adds a name of a leaf.
    pub(super) fn add_name(&mut self, file_block: u32, name: &[u8]) {
        let Some(hasher) = &self.hasher else { return };
        let hash = if self.is_casefolded {
            hasher.hash(&hashed(name)).0
        } else {
            hasher.hash(name).0
        };
        if let Some(leaf) = self.leaves.get_mut(&file_block) {
            leaf.lowest = leaf.lowest.min(hash);
            leaf.highest = leaf.highest.max(hash);
        }
    }

    /// Checks the index after all blocks were added.
    pub(super) fn check(mut self, context: &Context<'_>, directory: &Directory) {
        let Some(root) = self.root else { return };
        let mut problems = Vec::new();
        self.table(0, root.levels, (0, u32::MAX), &mut problems);
        for &block in self.tables.keys() {
            problems.push(format!(
                "no entry of the index refers to htree block {block}"
            ));
        }
        for (block, leaf) in &self.leaves {
            if !leaf.is_referenced {
                problems.push(format!("no entry of the index refers to leaf {block}"));
            }
        }
        for problem in problems {
            context.found_in(FindingKind::HtreeOrder, directory.inode, problem);
        }
    }

    /// Checks the table of a block, whose names have hashes from `range.0` to `range.1`. Each table
    /// is removed when it is checked, so no block is met twice.
    fn table(&mut self, block: u32, levels: u8, range: (u32, u32), problems: &mut Vec<String>) {
        let Some(entries) = self.tables.remove(&block) else {
            problems.push(format!(
                "htree block {block} is missing, or more than one entry refers to it"
            ));
            return;
        };
        let mut lowest = range.0;
        for (nth, &(hash, child)) in entries.iter().enumerate() {
            // The low bit says that names with the hash begin in the block before.
            let from = if nth == 0 { range.0 } else { hash & !1 };
            let next = entries.get(nth.saturating_add(1)).map(|&(next, _)| next);
            let until = next.map_or(range.1, |next| {
                if next & 1 == 0 {
                    next.saturating_sub(1)
                } else {
                    next
                }
            });
            if from < lowest || from > range.1 {
                problems.push(format!(
                    "htree block {block}: the hash {hash:#x} of entry {nth} is out of order"
                ));
            }
            lowest = from;
            if levels == 0 {
                self.leaf(child.0, (from, until), problems);
            } else {
                self.table(child.0, levels.saturating_sub(1), (from, until), problems);
            }
        }
    }

    fn leaf(&mut self, block: u32, (from, until): (u32, u32), problems: &mut Vec<String>) {
        let Some(leaf) = self.leaves.get_mut(&block) else {
            problems.push(format!(
                "the index refers to leaf {block}, which is missing"
            ));
            return;
        };
        if std::mem::replace(&mut leaf.is_referenced, true) {
            problems.push(format!(
                "more than one entry of the index refers to leaf {block}"
            ));
        }
        let is_empty = leaf.lowest > leaf.highest;
        if !is_empty && (leaf.lowest < from || leaf.highest > until) {
            problems.push(format!(
                "leaf {block} has hashes from {:#x} to {:#x}, expected {from:#x} to {until:#x}",
                leaf.lowest, leaf.highest
            ));
        }
    }
}
