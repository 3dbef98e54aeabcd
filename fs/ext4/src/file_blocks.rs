//! Where the blocks of a file are: its runs, in order.
//!
//! A file has an extent tree ([`extent_tree`]) or, without the flag `EXTENTS`, a block map
//! ([`block_map`]). The runs of a file that has few are kept as one list, so that a read resolves
//! without touching the tree again.

mod allocation;
mod block_map;
mod change;
mod extent_tree;
mod new_run;
mod read;

use std::sync::Arc;

use crate::block::FileBlock;
use crate::error::{InInode, Result};
use crate::inode::{Inode, InodeFlags};
use crate::journal::{EditedStep, EditedWalk};
use crate::run::Run;
use crate::volume::Volume;

pub(crate) use allocation::Reserved;
pub(crate) use change::{
    END, Hole, Place, REMOVE_CREDITS, append_block, check_shift_up, extent_at, goes_in_one_step,
    initialise, map_new, map_reach, mark_unwritten, mark_written, place_at, remove, shift_down,
    shift_up, split_at, too_large,
};
use extent_tree::empty_root;
pub(crate) use new_run::allocate;
pub(crate) use read::{Span, read, will_need};

/// How many runs a file may have for its list to be kept: 96 KiB of memory. What has more is looked
/// up in its tree each time; that is a file in pieces of some blocks each, or a huge one.
const LISTED_RUNS_MAX: usize = 4096;
/// How many steps the making of a list may take, empty subtrees included.
const LISTED_STEPS_MAX: usize = 2 * LISTED_RUNS_MAX;

/// The runs of an inode from the one that holds `from` on (which is cut to begin there), in order.
/// Holes are what lies between them. Ends after the first error.
pub(crate) fn runs<'a>(volume: &'a Volume, inode: &'a Inode, from: FileBlock) -> Runs<'a> {
    runs_until(volume, inode, from, u64::MAX)
}

/// As [`runs`], but what begins at file block `until` or behind it may be left out: a map can lead to
/// 2^32 blocks of nothing, and then a search takes as long as it is far.
pub(crate) fn runs_until<'a>(
    volume: &'a Volume,
    inode: &'a Inode,
    from: FileBlock,
    until: u64,
) -> Runs<'a> {
    let source = match list(volume, inode) {
        Ok(Some(list)) => {
            let next = list.partition_point(|run| run.end() <= u64::from(from.0));
            Source::List { list, next }
        }
        Ok(None) => Source::Walk(Walk::new(volume, inode, from, until)),
        Err(e) => Source::Failed(Some(e)),
    };
    Runs {
        source,
        from,
        until,
        inode: inode.number,
    }
}

/// Iterator of [`runs`].
#[derive(Debug)]
pub(crate) struct Runs<'a> {
    source: Source<'a>,
    from: FileBlock,
    until: u64,
    inode: u32,
}

#[derive(Debug)]
enum Source<'a> {
    List { list: Arc<[Run]>, next: usize },
    Walk(Walk<'a>),
    Failed(Option<diskfs_vfs::Error>),
}

impl Runs<'_> {
    /// The runs that are still to come, where they are in memory already.
    pub(crate) fn listed(&self) -> &[Run] {
        match &self.source {
            Source::List { list, next } => list.get(*next..).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The file block before which none was left out.
    pub(crate) fn complete_until(&self) -> u64 {
        match self.source {
            Source::Walk(_) => self.until,
            _ => u64::MAX,
        }
    }

    fn next_uncut(&mut self) -> Option<Result<Run>> {
        match &mut self.source {
            Source::List { list, next } => {
                let run = list.get(*next)?;
                *next = next.saturating_add(1);
                Some(Ok(*run))
            }
            Source::Walk(walk) => loop {
                match walk.step()? {
                    Ok(Step::Run(run)) => break Some(Ok(run)),
                    Ok(Step::Nothing) => {}
                    Err(e) => {
                        self.source = Source::Failed(None);
                        break Some(Err(e));
                    }
                }
            },
            Source::Failed(e) => e.take().map(Err),
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

/// What one step along a tree gives.
#[derive(Debug)]
enum Step {
    Run(Run),
    /// Nothing at this place; there may be more behind it.
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

    /// `None` at the end.
    fn step(&mut self) -> Option<Result<Step>> {
        match self {
            Self::Extents(walk) => walk.step(),
            Self::BlockMap(walk) => walk.step(),
            Self::Edited(tree, walk) => step_edited(tree, walk),
        }
    }
}

fn step_edited(tree: &mut Walk<'_>, walk: &mut EditedWalk<'_>) -> Option<Result<Step>> {
    match walk.step() {
        EditedStep::Run(run) => return Some(Ok(Step::Run(run))),
        EditedStep::Nothing => {}
        EditedStep::End => return None,
        EditedStep::NeedsRun => match tree.step() {
            None => walk.supply(None),
            Some(Ok(Step::Run(run))) => walk.supply(Some(run)),
            Some(nothing) => return Some(nothing),
        },
    }
    Some(Ok(Step::Nothing))
}

/// All runs of an inode, neighbours joined; `None` when they are too many for a list.
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
            Some(Step::Nothing) => {}
            Some(Step::Run(run)) => {
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
