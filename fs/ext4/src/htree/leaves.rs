//! Iteration over the leaves of an index, in order.

use crate::block::FileBlock;
use crate::error::Result;

use super::hash::{Hasher, NameHash};
use super::lookup::{Blocks, Directory, Start};
use super::path::Path;

/// A position in the sequence of leaves.
pub(crate) struct Leaves<'a, B: Blocks> {
    pub(crate) hasher: Hasher,
    path: Path<'a, B>,
}

impl<'a, B: Blocks> Leaves<'a, B> {
    /// Finds the first leaf that contains names with `hash`. Returns `None` if hashes cannot be
    /// computed without a key.
    ///
    /// # Errors
    /// `Corrupt` if the index is invalid; the errors of `blocks`.
    pub(crate) fn from(
        directory: &'a Directory,
        blocks: &'a B,
        hash: NameHash,
    ) -> Result<Option<Self>> {
        let Some(Start {
            root,
            hasher,
            levels,
        }) = directory.start(blocks)?
        else {
            return Ok(None);
        };
        let path = Path::to_hash(directory, blocks, root, levels, hash)?;
        Ok(Some(Self { hasher, path }))
    }

    /// Returns the block of the current leaf.
    pub(crate) fn leaf(&self) -> Result<FileBlock> {
        self.path.leaf()
    }

    /// Returns the hash with which the next leaf begins, or `None` after the last leaf. Its low bit
    /// is set if names with that hash began in the current leaf.
    pub(crate) fn next_hash(&self) -> Result<Option<u32>> {
        self.path.next_hash()
    }

    /// Moves on to the next leaf, which must exist.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.path.step()
    }
}
