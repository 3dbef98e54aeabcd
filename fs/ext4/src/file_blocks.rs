//! The mapping of file blocks to blocks of the filesystem: a file's runs, in order.
//!
//! A file has an extent tree ([`extent_tree`]) or, without the flag `EXTENTS`, a block map
//! ([`block_map`]). If a file has few runs, they are cached as one list, so that later reads do not
//! access the tree.

mod allocation;
mod block_map;
mod change;
mod extent_tree;
mod new_run;
mod nodes;
mod read;
mod relocate;

use std::sync::Arc;

use crate::block::FileBlock;
use crate::error::{InInode, Result};
use crate::inode::{Inode, InodeFlags};
use crate::journal::{EditedStep, EditedWalk};
use crate::run::Run;
use crate::volume::Volume;

pub(crate) use allocation::Reserved;
pub(crate) use block_map::{NewMap, map_blocks_for};
pub(crate) use change::{
    BlockMapping, END, Hole, REMOVE_CREDITS, append_block, check_shift_up, extent_at,
    fits_in_one_step, initialise, map_new, map_reach, mapping_at, mark_unwritten, mark_written,
    remove, shift_down, shift_up, split_at, too_large,
};
use extent_tree::empty_root;
pub(crate) use extent_tree::node as extent_node;
pub(crate) use extent_tree::{NewTree, tree_blocks_for};
pub(crate) use new_run::allocate;
pub(crate) use nodes::{LEN_MAX, nodes, seal_nodes};
pub(crate) use read::{Span, read, will_need};
pub(crate) use relocate::{RELOCATE_CREDITS, Relocation, relocate};

/// The maximum number of runs of a cached list: 96 KiB of memory. A file with more runs is looked
/// up in its tree each time; such a file is huge, or its fragments have only a few blocks.
const LISTED_RUNS_MAX: usize = 4096;
/// The maximum number of steps for building a list, including empty subtrees.
const LISTED_STEPS_MAX: usize = 2 * LISTED_RUNS_MAX;

/// Returns the runs of an inode in order, starting with the one that contains `from` (cut to begin
/// there). The gaps between them are holes. The iterator ends after the first error.
pub(crate) fn runs<'a>(volume: &'a Volume, inode: &'a Inode, from: FileBlock) -> Runs<'a> {
    runs_until(volume, inode, from, u64::MAX)
}

/// Returns the runs like [`runs`], but may leave out those that begin at or after file block
/// `until`: a block map can cover 2^32 blocks of holes, and this limits the time for searching
/// them.
pub(crate) fn runs_until<'a>(
    volume: &'a Volume,
    inode: &'a Inode,
    from: FileBlock,
    until: u64,
) -> Runs<'a> {
    let source = match list(volume, inode) {
        Ok(Some(list)) => {
            let next = list.partition_point(|run| run.end() <= u64::from(from.0));
            RunSource::List { list, next }
        }
        Ok(None) => RunSource::Walk(Walk::new(volume, inode, from, until)),
        Err(e) => RunSource::Failed(Some(e)),
    };
    Runs {
        source,
        from,
        until,
        inode: inode.number,
    }
}

/// The iterator of [`runs`].
#[derive(Debug)]
pub(crate) struct Runs<'a> {
    source: RunSource<'a>,
    from: FileBlock,
    until: u64,
    inode: u32,
}

#[derive(Debug)]
enum RunSource<'a> {
    List { list: Arc<[Run]>, next: usize },
    Walk(Walk<'a>),
    Failed(Option<diskfs_vfs::Error>),
}

impl Runs<'_> {
    /// Returns the remaining runs if they are already in memory.
    pub(crate) fn listed(&self) -> &[Run] {
        match &self.source {
            RunSource::List { list, next } => list.get(*next..).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Returns the file block before which no run was left out.
    pub(crate) fn complete_until(&self) -> u64 {
        match self.source {
            RunSource::Walk(_) => self.until,
            _ => u64::MAX,
        }
    }

    fn next_uncut(&mut self) -> Option<Result<Run>> {
        match &mut self.source {
            RunSource::List { list, next } => {
                let run = list.get(*next)?;
                *next = next.saturating_add(1);
                Some(Ok(*run))
            }
            RunSource::Walk(walk) => loop {
                match walk.step()? {
                    Ok(WalkStep::Run(run)) => break Some(Ok(run)),
                    Ok(WalkStep::Nothing) => {}
                    Err(e) => {
                        self.source = RunSource::Failed(None);
                        break Some(Err(e));
                    }
                }
            },
            RunSource::Failed(e) => e.take().map(Err),
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Result<Run>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_uncut()? {
                Ok(run) => {
                    if let Some(run) = run.starting_at(self.from) {
                        return Some(Ok(run));
                    }
                }
                Err(e) => return Some(Err(e).in_inode(self.inode)),
            }
        }
    }
}

/// The result of one step of a walk along a tree.
#[derive(Debug)]
enum WalkStep {
    Run(Run),
    /// No run at this place; there may be more after it.
    Nothing,
}

/// A walk along an inode's tree.
#[derive(Debug)]
enum Walk<'a> {
    Extents(extent_tree::Walk<'a>),
    BlockMap(block_map::Walk<'a>),
    /// A tree that fast commits changed.
    Edited(Box<Self>, EditedWalk<'a>),
}

impl<'a> Walk<'a> {
    fn new(volume: &'a Volume, inode: &'a Inode, from: FileBlock, until: u64) -> Self {
        let tree = if inode.has(InodeFlags::EXTENTS) {
            Self::Extents(extent_tree::Walk::new(volume, inode, from))
        } else {
            Self::BlockMap(block_map::Walk::new(volume, inode, from, until))
        };
        let fast_commits = volume.fast_commits.as_ref();
        match fast_commits.and_then(|fast_commits| fast_commits.ranges(inode.number)) {
            Some(edits) => Self::Edited(Box::new(tree), EditedWalk::new(edits, from)),
            None => tree,
        }
    }

    /// Does one step, or returns `None` at the end.
    fn step(&mut self) -> Option<Result<WalkStep>> {
        match self {
            Self::Extents(walk) => walk.step(),
            Self::BlockMap(walk) => walk.step(),
            Self::Edited(tree, walk) => step_edited(tree, walk),
        }
    }
}

fn step_edited(tree: &mut Walk<'_>, walk: &mut EditedWalk<'_>) -> Option<Result<WalkStep>> {
    match walk.step() {
        EditedStep::Run(run) => return Some(Ok(WalkStep::Run(run))),
        EditedStep::Nothing => {}
        EditedStep::End => return None,
        EditedStep::NeedsRun => match tree.step() {
            None => walk.supply(None),
            Some(Ok(WalkStep::Run(run))) => walk.supply(Some(run)),
            Some(nothing) => return Some(nothing),
        },
    }
    Some(Ok(WalkStep::Nothing))
}

/// Returns all runs of an inode with adjacent ones joined, or `None` if there are too many for a
/// list.
fn list(volume: &Volume, inode: &Inode) -> Result<Option<Arc<[Run]>>> {
    let make = || make_list(volume, inode);
    volume.maps.get_or_make(inode.number, make)
}

fn make_list(volume: &Volume, inode: &Inode) -> Result<Option<Arc<[Run]>>> {
    let mut walk = Walk::new(volume, inode, FileBlock(0), u64::MAX);
    let mut list: Vec<Run> = Vec::new();
    for _ in 0..LISTED_STEPS_MAX {
        match walk.step().transpose().in_inode(inode.number)? {
            None => return Ok(Some(list.into())),
            Some(WalkStep::Nothing) => {}
            Some(WalkStep::Run(run)) => {
                if !list.last_mut().is_some_and(|last| last.absorb(&run)) {
                    if list.len() == LISTED_RUNS_MAX {
                        return Ok(None);
                    }
                    list.push(run);
                }
            }
        }
    }
    Ok(None)
}
