//! The pass over all directories, and what it finds about their parents.

use std::sync::atomic::AtomicU32;

use super::attributes::link_values;
use super::block_set::BlockSet;
use super::context::Context;
use super::scan::Directory;
use crate::bytes::index;
use crate::error::Result;

/// The parents of a directory; 0 stands for an unknown one.
#[derive(Debug, Default)]
pub(super) struct Parents {
    /// The directory that contains its name.
    pub(super) by_name: AtomicU32,
    /// The directory that `..` refers to.
    pub(super) dot_dot: AtomicU32,
}

/// The pass over all directories, which several threads run.
#[derive(Debug)]
pub(super) struct DirectoryPass<'a> {
    pub(super) context: &'a Context<'a>,
    /// All directories, sorted by inode.
    pub(super) directories: &'a [Directory],
    pub(super) parents: Vec<Parents>,
    /// The inodes with values that attributes refer to, sorted.
    pub(super) values: Vec<u32>,
    /// The blocks that were read: each is read once, however many directories refer to it.
    pub(super) read: BlockSet,
}

impl<'a> DirectoryPass<'a> {
    pub(super) fn new(context: &'a Context<'a>, directories: &'a [Directory]) -> Result<Self> {
        context.budget.take::<Parents>(directories.len())?;
        let parents = std::iter::repeat_with(Parents::default);
        Ok(Self {
            context,
            directories,
            parents: parents.take(directories.len()).collect(),
            values: link_values(context)?,
            read: BlockSet::new(context.geometry.by_blocks(), context.budget)?,
        })
    }

    /// Returns the position of a directory.
    pub(super) fn position(&self, inode: u32) -> Option<usize> {
        let key = |directory: &Directory| directory.inode;
        self.directories.binary_search_by_key(&inode, key).ok()
    }
}

/// Returns the positions of the directories in the order of their first blocks on the device.
pub(super) fn in_disk_order(directories: &[Directory]) -> Vec<u32> {
    let count = u32::try_from(directories.len()).unwrap_or(u32::MAX);
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_by_key(|&position| {
        let directory = directories.get(index(position));
        directory
            .and_then(|directory| directory.runs.first())
            .map_or(0, |run| run.fs_block.0)
    });
    order
}
