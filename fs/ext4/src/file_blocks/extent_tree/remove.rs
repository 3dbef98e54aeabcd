//! Removal of extents.

use std::ops::Range;

use crate::block::FileBlock;
use crate::error::Result;
use crate::file_blocks::allocation::Groups;
use crate::inode::Inode;
use crate::run::Run;
use crate::volume::Volume;

use super::edit::Editor;
use super::map::part_from;
use super::node::{self, RawExtent};
use super::path::Path;

impl Editor<'_, '_> {
    /// Removes the last extents of a range, as many as one step may, and frees their blocks.
    /// Returns the end of the extents before them, or `None` if nothing of the range is left.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed, if an extent is split in two and no node has room;
    /// `Corrupt`, `Io`.
    pub(in super::super) fn remove_last(&mut self, range: &Range<u64>) -> Result<Option<u64>> {
        let Some(last) = range.end.checked_sub(1).filter(|&last| last >= range.start) else {
            return Ok(None);
        };
        let path = self.find(FileBlock(u32::try_from(last).unwrap_or(u32::MAX)))?;
        let groups = Groups::new(&self.volume().superblock);
        let removal = Removal::plan(&path, range, groups);
        let before = path.range().start;
        if removal.pieces.is_empty() {
            return self.skip(path, range, before);
        }
        let end = removal
            .pieces
            .last()
            .map(|piece| u64::from(piece.file_block.0));
        self.put_changed(path, removal.entries, &removal.rest)?;
        self.free_pieces(&removal.pieces)?;
        match end {
            Some(end) if self.next_run(range.start, end)?.is_some() => Ok(Some(end)),
            _ => Ok(None),
        }
    }

    /// Goes past a leaf that has no blocks of the range.
    fn skip(&mut self, path: Path, range: &Range<u64>, before: u64) -> Result<Option<u64>> {
        if path.before().is_some() || before == 0 || before >= range.end {
            return Ok(None);
        }
        if path.run(0).is_none() {
            // A leaf without entries must not be left behind.
            self.put(path, 0..0, &[])?;
        }
        Ok(Some(before).filter(|&end| end > range.start))
    }
}

/// Returns true if one step removes all extents.
pub(in super::super) fn fits_in_one_step(volume: &Volume, inode: &Inode) -> bool {
    let mut groups = Groups::new(&volume.superblock);
    node::depth(&inode.block) == 0
        && node::extents(&inode.block)
            .iter()
            .map(RawExtent::run)
            .all(|run| groups.admit(run) == Some(run))
}

/// The changes of one leaf in one step.
struct Removal {
    /// The entries that change.
    entries: Range<usize>,
    /// The parts of them that stay mapped.
    rest: Vec<Run>,
    /// The parts that are removed, from the last to the first.
    pieces: Vec<Run>,
}

impl Removal {
    fn plan(path: &Path, range: &Range<u64>, mut groups: Groups<'_>) -> Self {
        let position = path.position();
        let starts_within = |run: Run| u64::from(run.file_block.0) < range.end;
        let reaches = path.run(position).is_some_and(starts_within);
        let end = position.saturating_add(usize::from(reaches));
        let mut start = end;
        let mut pieces = Vec::new();
        let mut rest = Vec::new();
        while let Some(nth) = start.checked_sub(1)
            && let Some(run) = path.run(nth)
            && run.end() > range.start
        {
            let within = run.ending_at(range.end);
            let within = within.and_then(|run| run.starting_at_or_all(range.start));
            let Some(piece) = within.and_then(|run| groups.admit(run)) else {
                break;
            };
            start = nth;
            rest.extend(part_from(run, range.end));
            pieces.push(piece);
            if let Some(before) = run.ending_at(u64::from(piece.file_block.0)) {
                rest.insert(0, before);
                break;
            }
        }
        Self {
            entries: start..end,
            rest,
            pieces,
        }
    }
}
