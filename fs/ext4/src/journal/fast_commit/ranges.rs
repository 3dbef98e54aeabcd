//! The blocks of a file that were added and removed since its extent tree was written.

use std::collections::BTreeMap;

use crate::block::{FileBlock, FsBlock};
use crate::run::Run;

/// The parts of a file that differ from its tree; all other parts are as in the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeEdits {
    /// The parts by their first file block; they do not overlap.
    parts: BTreeMap<u32, MappedPart>,
}

/// The current mapping of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MappedPart {
    /// The end of the part as a file block: up to 2^32.
    end: u64,
    /// The blocks, or `None` for a hole.
    target: Option<MappedBlocks>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MappedBlocks {
    fs_block: FsBlock,
    written: bool,
}

impl MappedPart {
    /// Returns the rest of the part from `from` on, if the part begins at `start`.
    fn starting_at(self, start: u32, from: u32) -> Self {
        let skipped = u64::from(from.saturating_sub(start));
        let target = self.target.map(|target| MappedBlocks {
            fs_block: target.fs_block.after(skipped),
            ..target
        });
        Self { target, ..self }
    }

    fn run(self, start: u32) -> Option<Run> {
        let len = self.end.saturating_sub(u64::from(start));
        self.target.map(|target| Run {
            file_block: FileBlock(start),
            fs_block: target.fs_block,
            len_blocks: u32::try_from(len).unwrap_or(u32::MAX),
            written: target.written,
        })
    }
}

impl RangeEdits {
    /// Maps these blocks, whatever was mapped there.
    pub(super) fn add(&mut self, run: &Run) {
        let target = MappedBlocks {
            fs_block: run.fs_block,
            written: run.written,
        };
        self.set(run.file_block, run.end(), Some(target));
    }

    /// Makes a range a hole.
    pub(super) fn remove(&mut self, start: FileBlock, len_blocks: u32) {
        let end = u64::from(start.0).saturating_add(u64::from(len_blocks));
        self.set(start, end, None);
    }

    fn set(&mut self, start: FileBlock, end: u64, target: Option<MappedBlocks>) {
        /// The number of file blocks: a file has no block from 2^32 on.
        const FILE_BLOCKS: u64 = 1 << 32;
        let end = end.min(FILE_BLOCKS);
        if u64::from(start.0) >= end {
            return;
        }
        self.split_at(u64::from(start.0));
        self.split_at(end);
        let last = u32::try_from(end.saturating_sub(1)).unwrap_or(u32::MAX);
        let covered: Vec<u32> = self
            .parts
            .range(start.0..=last)
            .map(|(&at, _)| at)
            .collect();
        for at in covered {
            self.parts.remove(&at);
        }
        self.parts.insert(start.0, MappedPart { end, target });
    }

    /// Splits the part that contains `at` there.
    fn split_at(&mut self, at: u64) {
        let Ok(at) = u32::try_from(at) else {
            return;
        };
        if let Some((&start, part)) = self.parts.range_mut(..at).next_back()
            && part.end > u64::from(at)
        {
            let rest = part.starting_at(start, at);
            part.end = u64::from(at);
            self.parts.insert(at, rest);
        }
    }

    /// Returns the first part that ends after `from`, cut to begin at or after `from`.
    fn next_from(&self, from: u64) -> Option<(u32, MappedPart)> {
        let from = u32::try_from(from).ok()?;
        let around = self.parts.range(..from).next_back();
        if let Some((&start, part)) = around
            && part.end > u64::from(from)
        {
            return Some((from, part.starting_at(start, from)));
        }
        self.parts
            .range(from..)
            .next()
            .map(|(&start, part)| (start, *part))
    }
}

/// The result of a step of [`EditedWalk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditedStep {
    /// The caller must call [`EditedWalk::supply`] with the tree's next run.
    NeedsRun,
    /// The next run of the file.
    Run(Run),
    /// A part of the file that is a hole.
    Nothing,
    /// The end of the runs.
    End,
}

/// The runs of a tree and the edits, merged in order.
#[derive(Debug)]
pub(crate) struct EditedWalk<'a> {
    edits: &'a RangeEdits,
    /// The file block before which everything has been returned.
    position: u64,
    /// The rest of the tree's current run.
    run: Option<Run>,
    tree_ended: bool,
}

impl<'a> EditedWalk<'a> {
    /// Returns the runs from `from` on.
    pub(crate) fn new(edits: &'a RangeEdits, from: FileBlock) -> Self {
        Self {
            edits,
            position: u64::from(from.0),
            run: None,
            tree_ended: false,
        }
    }

    /// Supplies the tree's next run, or `None` at its end.
    pub(crate) fn supply(&mut self, run: Option<Run>) {
        self.tree_ended = run.is_none();
        self.run = run.and_then(|run| starting_at(run, self.position));
    }

    /// Does one step.
    pub(crate) fn step(&mut self) -> EditedStep {
        if self.run.is_none() && !self.tree_ended {
            return EditedStep::NeedsRun;
        }
        let part = self.edits.next_from(self.position);
        match (self.run, part) {
            (None, None) => EditedStep::End,
            (Some(run), part) => match part {
                Some((start, part)) if start <= run.file_block.0 => self.take_part(start, part),
                part => self.take_run(run, part.map_or(u64::MAX, |(start, _)| u64::from(start))),
            },
            (None, Some((start, part))) => self.take_part(start, part),
        }
    }

    fn take_part(&mut self, start: u32, part: MappedPart) -> EditedStep {
        self.position = part.end;
        self.run = self.run.and_then(|run| starting_at(run, part.end));
        part.run(start).map_or(EditedStep::Nothing, EditedStep::Run)
    }

    /// Returns the run up to `end`, where an edit begins.
    fn take_run(&mut self, run: Run, end: u64) -> EditedStep {
        let now = run.ending_at(end);
        self.position = now.map_or(end, |now| now.end());
        self.run = starting_at(run, self.position);
        now.map_or(EditedStep::Nothing, EditedStep::Run)
    }
}

fn starting_at(run: Run, from: u64) -> Option<Run> {
    run.starting_at(FileBlock(u32::try_from(from).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(file_block: u32, fs_block: u64, len_blocks: u32) -> Run {
        let (file_block, fs_block) = (FileBlock(file_block), FsBlock(fs_block));
        Run {
            file_block,
            fs_block,
            len_blocks,
            written: true,
        }
    }

    fn walk(edits: &RangeEdits, tree: &[Run], from: u32) -> Vec<Run> {
        let mut tree = tree.iter().filter(|run| run.end() > u64::from(from));
        let mut walk = EditedWalk::new(edits, FileBlock(from));
        let mut out = Vec::new();
        loop {
            match walk.step() {
                EditedStep::NeedsRun => walk.supply(tree.next().copied()),
                EditedStep::Run(run) => out.push(run),
                EditedStep::Nothing => {}
                EditedStep::End => return out,
            }
        }
    }

    #[test]
    fn edits_cover_the_tree() {
        let mut edits = RangeEdits::default();
        edits.add(&run(3, 900, 2));
        edits.remove(FileBlock(8), 4);
        edits.add(&run(20, 950, 1));
        let tree = [run(0, 100, 10), run(11, 200, 3)];
        let want = [
            run(0, 100, 3),
            run(3, 900, 2),
            run(5, 105, 3),
            run(12, 201, 2),
            run(20, 950, 1),
        ];
        assert_eq!(walk(&edits, &tree, 0), want);
        assert_eq!(walk(&edits, &tree, 4)[0], run(4, 901, 1));
        assert_eq!(walk(&edits, &tree, 13), [run(13, 202, 1), run(20, 950, 1)]);
        assert_eq!(walk(&RangeEdits::default(), &tree, 12), [run(12, 201, 2)]);
    }

    #[test]
    fn the_end_of_the_file_s_blocks() {
        // Linux writes two ranges for a truncation, up to the last block but one.
        let mut edits = RangeEdits::default();
        edits.remove(FileBlock(1), 0x7fff_ffff);
        edits.remove(FileBlock(0x8000_0000), 0x7fff_ffff);
        edits.remove(FileBlock(u32::MAX), u32::MAX);
        edits.remove(FileBlock(7), 0);
        let tree = [run(0, 100, 10), run(u32::MAX - 1, 500, 2)];
        assert_eq!(walk(&edits, &tree, 0), [run(0, 100, 1)]);
        edits.add(&run(u32::MAX, 7, 5));
        assert_eq!(walk(&edits, &tree, 1), [run(u32::MAX, 7, 1)]);
    }

    proptest! {
        /// Compares the result with an array of the 64 blocks of a file.
        #[test]
        fn same_as_block_by_block(
            tree in proptest::collection::vec((0u32..3, 1u32..9), 0..8),
            edits in proptest::collection::vec((any::<bool>(), 0u32..64, 1u32..20), 0..12),
            from in 0u32..64,
        ) {
            let mut blocks = [None; 128];
            let mut runs = Vec::new();
            let mut at = 0;
            for (gap, len) in tree {
                at += gap;
                runs.push(run(at, u64::from(1000 + at * 2), len));
                for block in at..at + len {
                    blocks[block as usize] = Some(u64::from(1000 + at * 2 + (block - at)));
                }
                at += len;
            }
            let mut edited = RangeEdits::default();
            for (n, (added, start, len)) in edits.into_iter().enumerate() {
                let base = 5000 + 100 * n as u64;
                if added {
                    edited.add(&run(start, base, len));
                } else {
                    edited.remove(FileBlock(start), len);
                }
                for block in 0..len {
                    blocks[(start + block) as usize] = added.then_some(base + u64::from(block));
                }
            }
            let mut shown = [None; 128];
            let mut last = u64::from(from);
            for run in walk(&edited, &runs, from) {
                prop_assert!(u64::from(run.file_block.0) >= last, "in order and apart");
                last = run.end();
                for block in 0..run.len_blocks {
                    shown[(run.file_block.0 + block) as usize] = Some(run.fs_block.0 + u64::from(block));
                }
            }
            blocks[..from as usize].fill(None);
            prop_assert_eq!(&shown[..], &blocks[..]);
        }
    }
}
