//! The blocks of one inode: they are claimed, counted, and compared with the inode's size.

use diskfs_vfs::FileType;

use super::context::Context;
use super::finding::{FindingKind, FindingPlace};
use super::tree::TreeVisitor;
use crate::block::FsBlock;
use crate::error::Result;
use crate::features::{Incompatible, ReadOnlyCompatible};
use crate::inode::{Inode, InodeFlags};
use crate::run::Run;

/// The blocks of an inode that were found so far.
#[derive(Debug)]
pub(super) struct Claims<'a> {
    context: &'a Context<'a>,
    inode: &'a Inode,
    /// The number of clusters.
    clusters: u64,
    /// The last cluster that was counted, which the next run may continue.
    last_cluster: Option<u64>,
    /// The file block after the last one that is allocated.
    end: u64,
    /// The file block after the last one that is allocated and written.
    written_end: u64,
    /// The number of runs that don't continue the one before on the device.
    fragments: u64,
    first_run: Option<Run>,
    last_run: Option<Run>,
    /// The runs of a directory.
    runs: Vec<Run>,
    /// True if something prevents a comparison of sizes and counts.
    is_incomplete: bool,
}

impl<'a> Claims<'a> {
    pub(super) fn new(context: &'a Context<'a>, inode: &'a Inode) -> Self {
        Self {
            context,
            inode,
            clusters: 0,
            last_cluster: None,
            end: 0,
            written_end: 0,
            fragments: 0,
            first_run: None,
            last_run: None,
            runs: Vec::new(),
            is_incomplete: false,
        }
    }

    /// Returns true if the blocks are in more than one run.
    pub(super) const fn is_fragmented(&self) -> bool {
        self.fragments > 1
    }

    /// Returns the first run.
    pub(super) const fn first_run(&self) -> Option<Run> {
        self.first_run
    }

    /// Counts the block of attributes, and claims it if no other inode has done so.
    pub(super) fn attribute_block(&mut self, block: FsBlock, is_new: bool) -> Result<()> {
        self.clusters = self.clusters.saturating_add(1);
        if is_new {
            let context = self.context;
            let twice = Some(&context.twice);
            context.claimed.insert(block, 1, context.budget, twice)?;
        }
        Ok(())
    }

    /// Returns the runs of a directory.
    pub(super) fn into_runs(self) -> Vec<Run> {
        self.runs
    }

    /// Claims blocks, and counts their clusters.
    pub(super) fn claim(&mut self, first: FsBlock, len_blocks: u64) -> Result<()> {
        let ratio = self.context.superblock().cluster_ratio_bits;
        let base = u64::from(self.context.superblock().first_data_block);
        let cluster = |block: u64| block.saturating_sub(base).wrapping_shr(ratio);
        let end = first.after(len_blocks).0;
        let last = cluster(end.saturating_sub(1));
        let mut first_cluster = cluster(first.0);
        let mut start = first;
        if ratio > 0 && self.last_cluster == Some(first_cluster) {
            first_cluster = first_cluster.saturating_add(1);
            start = FsBlock(base.saturating_add(first_cluster.wrapping_shl(ratio)));
            if first_cluster > last {
                return Ok(());
            }
        }
        self.last_cluster = Some(last);
        let count = last.saturating_add(1).saturating_sub(first_cluster);
        self.clusters = self.clusters.saturating_add(count);
        let context = self.context;
        let len_blocks = end.saturating_sub(start.0);
        let twice = Some(&context.twice);
        context
            .claimed
            .insert(start, len_blocks, context.budget, twice)?;
        Ok(())
    }

    fn found(&self, kind: FindingKind, detail: String) {
        self.context.found_in(kind, self.inode.number, detail);
    }

    /// Returns the number of bytes of the clusters.
    pub(super) fn bytes(&self) -> u64 {
        let superblock = self.context.superblock();
        let cluster_bits = superblock
            .block_size
            .bits()
            .saturating_add(superblock.cluster_ratio_bits);
        self.clusters.wrapping_shl(cluster_bits)
    }

    /// Compares the size and the count of blocks with the blocks that were found. `value_bytes` are
    /// those of attribute values in other inodes, which count as blocks of this one.
    pub(super) fn compare(&self, value_bytes: u64) {
        if self.is_incomplete {
            return;
        }
        self.compare_size();
        let bytes = self.bytes().saturating_add(value_bytes);
        if bytes != self.inode.allocated_bytes {
            let (stored, found) = (self.inode.allocated_bytes, bytes);
            self.found(
                FindingKind::InodeBlockCount,
                format!("i_blocks is {stored} bytes, but the inode has {found} bytes"),
            );
        }
    }

    fn compare_size(&self) {
        let size = self.inode.size_bytes;
        let block_size = self.context.superblock().block_size;
        if self.inode.has(InodeFlags::INLINE_DATA) {
            return;
        }
        let end_bytes = block_size.bytes_of(self.end);
        if self.inode.is(FileType::Directory) {
            if size != end_bytes || size == 0 {
                self.found(
                    FindingKind::InodeSize,
                    format!("the directory's size is {size}, but its blocks end at {end_bytes}"),
                );
            }
            return;
        }
        // A written block may begin at the end of the file, but not after it.
        let last_written = block_size.bytes_of(self.written_end.saturating_sub(1));
        let is_verity = self.inode.has(InodeFlags::VERITY);
        if self.written_end > 0 && size < last_written && !is_verity {
            self.found(
                FindingKind::InodeSize,
                format!("the size is {size}, but a block begins at {last_written}"),
            );
        }
        let max = self.size_max();
        if size > max {
            self.found(
                FindingKind::InodeSize,
                format!("the size is {size}, expected at most {max}"),
            );
        }
    }

    /// Returns the maximum size of a file: that of the format of its blocks.
    fn size_max(&self) -> u64 {
        let superblock = self.context.superblock();
        let size = superblock.block_size;
        if self.inode.has(InodeFlags::EXTENTS) {
            return size.bytes_of(1 << 32).saturating_sub(1);
        }
        let numbers = u64::from(size.bytes()).wrapping_shr(2);
        let levels = [1, 2, 3].map(|level| numbers.saturating_pow(level));
        let blocks = levels
            .iter()
            .fold(12u64, |sum, &level| sum.saturating_add(level));
        size.bytes_of(blocks)
    }
}

impl TreeVisitor for Claims<'_> {
    fn run(&mut self, run: Run) -> Result<()> {
        self.claim(run.fs_block, u64::from(run.len_blocks))?;
        self.end = self.end.max(run.end());
        if run.written {
            self.written_end = self.written_end.max(run.end());
        }
        let continues = self
            .last_run
            .as_ref()
            .is_some_and(|last| last.fs_block.after(u64::from(last.len_blocks)) == run.fs_block);
        self.fragments = self.fragments.saturating_add(u64::from(!continues));
        self.first_run = self.first_run.or(Some(run));
        self.last_run = Some(run);
        if self.inode.is(FileType::Directory) {
            if !run.written {
                let detail = format!(
                    "file block {} of the directory is unwritten",
                    run.file_block
                );
                self.found(FindingKind::ExtentTree, detail);
            }
            self.context.budget.take::<Run>(1)?;
            self.runs.push(run);
        }
        Ok(())
    }

    fn node(&mut self, block: FsBlock) -> Result<bool> {
        // Blocks of trees don't share clusters with contents.
        let last_cluster = self.last_cluster.take();
        self.claim(block, 1)?;
        self.last_cluster = last_cluster;
        let context = self.context;
        let overlap = context.trees.insert(block, 1, context.budget, None)?;
        let is_new = overlap.clusters == 0;
        self.is_incomplete |= !is_new;
        Ok(is_new)
    }

    fn problem(&mut self, kind: FindingKind, block: Option<FsBlock>, detail: String) {
        self.is_incomplete |= kind != FindingKind::ExtentChecksum;
        let place = FindingPlace {
            block: block.map(|block| block.0),
            ..FindingPlace::inode(self.inode.number)
        };
        self.context.found(kind, place, detail);
    }
}

/// Returns true if files of more than 2 GiB need a feature that is missing.
pub(super) fn lacks_large_file(context: &Context<'_>, inode: &Inode) -> bool {
    let features = context.superblock().features;
    inode.is(FileType::Regular)
        && inode.size_bytes >= 1 << 31
        && !features.has(ReadOnlyCompatible::LARGE_FILE)
        && !features.has(Incompatible::LARGE_DIR)
}
