//! The leaves of an index, in order.

use crate::block::FileBlock;
use crate::error::Result;

use super::hash::{Hasher, NameHash};
use super::lookup::{Blocks, Directory, Start};
use super::path::Path;

/// The leaves from one on.
pub(crate) struct Leaves<'a, B: Blocks> {
    pub(crate) hasher: Hasher,
    path: Path<'a, B>,
}

impl<'a, B: Blocks> Leaves<'a, B> {
    /// From the first one that has names of `hash` on. `None` when only a key's owner can compute
    /// hashes.
    ///
    /// # Errors
    /// `Corrupt` when the index makes no sense; what `blocks` answers.
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

    /// The leaf where it stands.
    pub(crate) fn leaf(&self) -> Result<FileBlock> {
        self.path.leaf()
    }

    /// Where the hashes of the next leaf begin, with the low bit that says that names of that hash
    /// began in this one; `None` behind the last leaf.
    pub(crate) fn next_hash(&self) -> Result<Option<u32>> {
        self.path.next_hash()
    }

    /// Goes on to the next leaf, which there is.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.path.step()
    }
}
