//! Which blocks and inodes are in use, and which to take next.

use crate::block::FsBlock;
use crate::error::Result;
use crate::volume::Volume;
use crate::writer::{FreedRun, Handle};

/// Blocks that somebody needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// Where they would be best: behind the file's last block, or near its inode.
    pub(crate) goal: FsBlock,
    /// How many; at least 1. With clusters, a multiple of the cluster, and what is given begins
    /// with one.
    pub(crate) len_blocks: u32,
    /// Whether root's reserve may be used.
    pub(crate) reserve: Reserve,
}

/// Whether root's reserve may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    Keep,
    Use,
}

/// A run of blocks that was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) first: FsBlock,
    /// At most what was asked for, at least 1.
    pub(crate) len_blocks: u32,
}

/// The state of all block groups.
#[derive(Debug)]
pub(crate) struct Allocator {}

impl Allocator {
    pub(crate) fn open(_volume: &Volume) -> Result<Self> {
        Ok(Self {})
    }

    /// Allocates one contiguous run.
    pub(crate) fn allocate(&self, _handle: &Handle<'_>, _request: Request) -> Result<Allocated> {
        Err(crate::error::ErrorKind::NoSpace.into())
    }

    /// Frees a run of blocks.
    pub(crate) fn free(&self, _handle: &Handle<'_>, _run: FreedRun) -> Result<()> {
        Ok(())
    }

    /// Says that what was freed may be used again: the transaction that freed it is durable.
    pub(crate) fn release(&self, _freed: &[FreedRun]) {}

    /// Allocates an inode near its directory.
    pub(crate) fn allocate_inode(
        &self,
        _handle: &Handle<'_>,
        _parent: u32,
        _is_dir: bool,
    ) -> Result<u32> {
        Err(crate::error::ErrorKind::NoSpace.into())
    }

    /// Frees an inode.
    pub(crate) fn free_inode(
        &self,
        _handle: &Handle<'_>,
        _number: u32,
        _is_dir: bool,
    ) -> Result<()> {
        Ok(())
    }
}
