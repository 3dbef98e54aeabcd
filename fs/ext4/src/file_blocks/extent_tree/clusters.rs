//! Freeing the blocks of removed extents, and the clusters that other extents may still use.

use crate::block::FsBlock;
use crate::error::Result;
use crate::file_blocks::allocation::{PendingFrees, cluster_blocks};
use crate::run::Run;

use super::edit::Editor;
use super::path;

impl Editor<'_, '_> {
    /// Frees the blocks of runs that were removed from the tree, given from the last to the first.
    pub(super) fn free_pieces(&mut self, pieces: &[Run]) -> Result<()> {
        let mut freeing = PendingFrees::default();
        for piece in pieces {
            if self.volume().superblock.cluster_ratio_bits == 0 {
                freeing.add(piece.fs_block, u64::from(piece.len_blocks));
            } else {
                self.add_clusters(piece, &mut freeing)?;
            }
        }
        freeing.finish(self.handle, self.inode)
    }

    /// Adds the clusters of a removed run in which nothing is mapped any more.
    fn add_clusters(&self, piece: &Run, freeing: &mut PendingFrees) -> Result<()> {
        let cluster = u64::from(cluster_blocks(&self.volume().superblock));
        let within = cluster.wrapping_sub(1);
        let mut first = piece.fs_block.0 & !within;
        let end = piece.fs_block.0.saturating_add(u64::from(piece.len_blocks));
        let mut end = end.saturating_add(within) & !within;
        let start_in_file = u64::from(piece.file_block.0);
        if start_in_file & within != 0 && self.has_in_cluster(start_in_file)? {
            first = first.saturating_add(cluster);
        }
        let last_in_file = piece.end().saturating_sub(1);
        let ends_within = piece.end() & within != 0;
        let is_counted = freeing.last_first() == Some(FsBlock(end.saturating_sub(cluster)));
        if ends_within && (is_counted || self.has_in_cluster(last_in_file)?) {
            end = end.saturating_sub(cluster);
        }
        freeing.add(FsBlock(first), end.saturating_sub(first));
        Ok(())
    }

    /// Returns true if any block is mapped in the file's cluster that contains a file block.
    fn has_in_cluster(&self, block: u64) -> Result<bool> {
        let cluster = u64::from(cluster_blocks(&self.volume().superblock));
        let start = block & !cluster.wrapping_sub(1);
        Ok(self
            .next_run(start, start.saturating_add(cluster))?
            .is_some())
    }

    /// Returns the next run, like [`path::next_run`].
    pub(super) fn next_run(&self, from: u64, until: u64) -> Result<Option<Run>> {
        path::next_run(self.volume(), self.inode, from, until)
    }
}
