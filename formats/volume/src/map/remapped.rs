//! Segments of which a table says where each block is.

use diskfs_block::{BlockRead, Result};

use super::{Area, Below, Moved, Run};
use crate::thin::Thin;

/// What looks places up.
#[derive(Debug)]
pub(crate) enum Table<D: ?Sized> {
    /// The tree of a thin volume.
    Thin(Thin<D>),
    /// Chunks of the first member that the second one has.
    Moved(Moved),
}

/// A table, and what it has places on.
#[derive(Debug)]
pub(crate) struct Remapped<D: ?Sized> {
    table: Table<D>,
    areas: Vec<Area<D>>,
}

/// A run of bytes that lies together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// From the byte that was asked for on; never zero.
    pub(crate) len_bytes: u64,
    pub(crate) target: Target,
    pub(crate) access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A byte of a member.
    Member { member: usize, offset: u64 },
    /// Nothing is stored: zeroes.
    Hole,
}

/// Whether bytes can be written where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Granted,
    /// They can't, for that reason.
    Refused(&'static str),
}

impl<D: BlockRead + ?Sized> Remapped<D> {
    pub(crate) fn new(table: Table<D>, areas: Vec<Area<D>>) -> Self {
        Self { table, areas }
    }

    pub(super) fn areas(&self) -> &[Area<D>] {
        &self.areas
    }

    /// The run from `offset` on, of which the segment has `left` bytes.
    pub(super) fn run_at(&self, offset: u64, left: u64) -> Result<Run<'_, D>> {
        let piece = match &self.table {
            Table::Thin(thin) => thin.piece_at(offset)?,
            Table::Moved(moved) => moved.piece_at(offset),
        };
        let area = |member: usize| self.areas.get(member);
        let below = match piece.target {
            Target::Member { member, offset } => match area(member) {
                Some(area) => Below::One(area, offset, piece.access),
                None => Below::Error,
            },
            Target::Hole => Below::Hole(piece.access),
        };
        Ok(Run {
            below,
            len_bytes: piece.len_bytes.min(left),
        })
    }
}
