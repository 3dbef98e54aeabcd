//! Segments whose blocks are located by a table.

use diskfs_block::{BlockRead, Result};

use super::{Area, Moved, Run, RunSource};
use crate::thin::Thin;

/// The table that locates blocks.
#[derive(Debug)]
pub(crate) enum Table<D: ?Sized> {
    /// The tree of a thin volume.
    Thin(Thin<D>),
    /// The chunks of the first member that are on the second one.
    Moved(Moved),
}

/// A table, and the areas to which it refers.
#[derive(Debug)]
pub(crate) struct Remapped<D: ?Sized> {
    table: Table<D>,
    areas: Vec<Area<D>>,
}

/// A contiguous run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The length from the requested byte on; never zero.
    pub(crate) len_bytes: u64,
    pub(crate) target: Target,
    pub(crate) access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A byte of a member.
    Member { member: usize, offset: u64 },
    /// A hole: nothing is stored, and it reads as zeroes.
    Hole,
}

/// The answer whether bytes can be written in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Granted,
    /// Writing is refused, with the reason.
    Refused(&'static str),
}

impl<D: BlockRead + ?Sized> Remapped<D> {
    pub(crate) fn new(table: Table<D>, areas: Vec<Area<D>>) -> Self {
        Self { table, areas }
    }

    pub(super) fn areas(&self) -> &[Area<D>] {
        &self.areas
    }

    /// Returns the run from `offset` on, of which the segment has `left` bytes.
    pub(super) fn run_at(&self, offset: u64, left: u64) -> Result<Run<'_, D>> {
        let piece = match &self.table {
            Table::Thin(thin) => thin.piece_at(offset)?,
            Table::Moved(moved) => moved.piece_at(offset),
        };
        let area = |member: usize| self.areas.get(member);
        let source = match piece.target {
            Target::Member { member, offset } => match area(member) {
                Some(area) => RunSource::One(area, offset, piece.access),
                None => RunSource::Error,
            },
            Target::Hole => RunSource::Hole(piece.access),
        };
        Ok(Run {
            source,
            len_bytes: piece.len_bytes.min(left),
        })
    }
}
