//! Adding extents, and switching them between written and unwritten.

use std::ops::Range;

use crate::block::FileBlock;
use crate::error::{Result, Structure, malformed};
use crate::run::Run;

use super::edit::Editor;
use super::node::len_max;
use super::path::Path;

impl Editor<'_, '_> {
    /// Maps a run of blocks where nothing is mapped. It is joined with its neighbours.
    ///
    /// # Errors
    /// `NoSpace`; the beginning of a run longer than an extent can be may be mapped then.
    pub(in super::super) fn map(&mut self, run: Run) -> Result<()> {
        let mut left = Some(run);
        while let Some(run) = left {
            let path = self.find(run.file_block)?;
            // A leaf must not map blocks outside of the range that its parent gives it.
            let Some(piece) = run.ending_at(path.range().end) else {
                break;
            };
            let (before, here) = (path.before(), path.first_extent());
            if here.is_some_and(|here| u64::from(here.file_block.0) < piece.end()) {
                let structure = Structure::Inode(self.inode.number);
                return Err(malformed(
                    structure,
                    "one of the file blocks is mapped already",
                ));
            }
            let window = window(path.position(), before, here);
            let runs = join([before, Some(piece), here]);
            self.put_changed(path, window, &runs)?;
            left = part_from(run, piece.end());
        }
        Ok(())
    }

    /// Marks the first extent within a range as written or unwritten. Returns where to continue, or
    /// `None` if there is no more.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed.
    pub(in super::super) fn set_written_next(
        &mut self,
        range: &Range<u64>,
        written: bool,
    ) -> Result<Option<u64>> {
        let mut at = range.start;
        while let Some(block) = u32::try_from(at).ok().filter(|_| at < range.end) {
            let path = self.find(FileBlock(block))?;
            let Some(here) = path.first_extent() else {
                at = path.range().end;
                continue;
            };
            let start = at.max(u64::from(here.file_block.0));
            let end = here.end().min(range.end);
            at = here.end();
            if start < end && here.written != written {
                self.set_written_within(path, here, start..end)?;
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Switches a part of a path's extent between written and unwritten.
    fn set_written_within(&mut self, path: Path, here: Run, part: Range<u64>) -> Result<()> {
        let changed = here
            .starting_at_or_all(part.start)
            .and_then(|run| run.ending_at(part.end))
            .map(|run| Run {
                written: !here.written,
                ..run
            });
        let (before, after) = (path.before(), path.after());
        let around = window(path.position(), before, Some(here));
        let around = around.start..around.end.saturating_add(usize::from(after.is_some()));
        let (left, right) = (here.ending_at(part.start), part_from(here, part.end));
        self.put_changed(path, around, &join([before, left, changed, right, after]))
    }

    /// Joins the extents on both sides of a file block if they are contiguous.
    pub(in super::super) fn join_at(&mut self, block: FileBlock) -> Result<()> {
        let path = self.find(block)?;
        let (before, here) = (path.before(), path.first_extent());
        let window = window(path.position(), before, here);
        self.put_changed(path, window, &join([before, here]))
    }
}

/// Returns the entries around a position, as far as they exist.
fn window(position: usize, before: Option<Run>, here: Option<Run>) -> Range<usize> {
    let start = position.saturating_sub(usize::from(before.is_some()));
    start..position.saturating_add(usize::from(here.is_some()))
}

/// Returns the part of a run at or after file block `from`.
pub(super) fn part_from(run: Run, from: u64) -> Option<Run> {
    run.starting_at(FileBlock(u32::try_from(from).ok()?))
}

/// Converts runs to extents: contiguous ones become one, up to the maximum length of an extent.
fn join<const N: usize>(runs: [Option<Run>; N]) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::with_capacity(N);
    for run in runs.into_iter().flatten() {
        let mut left = Some(run);
        if let Some(last) = joined.last_mut() {
            left = last.fill(run);
        }
        while let Some(run) = left {
            let end = u64::from(run.file_block.0).saturating_add(u64::from(len_max(run.written)));
            joined.extend(run.ending_at(end));
            left = part_from(run, end);
        }
    }
    joined
}

impl Run {
    /// Returns the part of the run at or after file block `from`, which may be before all of it.
    pub(super) fn starting_at_or_all(self, from: u64) -> Option<Self> {
        part_from(self, from.max(u64::from(self.file_block.0)))
    }

    /// Extends the run by the one that follows it, up to the maximum length of an extent. Returns
    /// the rest of the second run.
    fn fill(&mut self, next: Self) -> Option<Self> {
        let room = len_max(self.written).saturating_sub(self.len_blocks);
        let end = u64::from(next.file_block.0).saturating_add(u64::from(room));
        match next.ending_at(end) {
            Some(piece) if self.absorb(&piece) => part_from(next, end),
            _ => Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::FsBlock;

    fn run(file_block: u32, fs_block: u64, len_blocks: u32, written: bool) -> Run {
        Run {
            file_block: FileBlock(file_block),
            fs_block: FsBlock(fs_block),
            len_blocks,
            written,
        }
    }

    #[test]
    fn extents_are_joined_up_to_their_longest() {
        let two = [run(0, 100, 32_000, true), run(32_000, 32_100, 1000, true)];
        let joined = join(two.map(Some));
        assert_eq!(
            joined,
            [run(0, 100, 32_768, true), run(32_768, 32_868, 232, true)]
        );
        let joined = join([None, Some(run(5, 9, 70_000, false))]);
        let lens: Vec<u32> = joined.iter().map(|run| run.len_blocks).collect();
        assert_eq!(lens, [32_767, 32_767, 4466]);
        assert_eq!(joined[1], run(5 + 32_767, 9 + 32_767, 32_767, false));
        let apart = [run(0, 100, 1, true), run(1, 101, 1, false)];
        assert_eq!(join(apart.map(Some)), apart);
    }
}
