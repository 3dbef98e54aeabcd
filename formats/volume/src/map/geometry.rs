//! Where the bytes of a segment are on its members: arithmetic only.
//!
//! Sums saturate: what that makes wrong lies past the end of every member, which says so.

use std::num::{NonZeroU64, NonZeroUsize};

/// How a segment is laid out on its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Geometry {
    /// The same on each member. With a single one it is linear.
    Mirror,
    /// Pieces of a size, dealt out to the members in turn.
    Stripes {
        /// Bytes in a piece.
        chunk_bytes: NonZeroU64,
    },
}

/// A place on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which member.
    pub(crate) member: usize,
    /// The byte of it.
    pub(crate) offset: u64,
}

impl Geometry {
    /// How many bytes from `offset` on lie together on one member; `left` are there to the end of
    /// the segment.
    pub(super) fn run_bytes(self, offset: u64, left: u64) -> u64 {
        match self {
            Self::Mirror => left,
            Self::Stripes { chunk_bytes } => {
                left.min(chunk_bytes.get().saturating_sub(offset % chunk_bytes))
            }
        }
    }

    /// How many copies there are of each byte.
    pub(super) fn copies(self, members: NonZeroUsize) -> usize {
        match self {
            Self::Mirror => members.get(),
            Self::Stripes { .. } => 1,
        }
    }

    /// Where a copy of the byte at `offset` is.
    pub(super) fn place(self, offset: u64, copy: usize, members: NonZeroUsize) -> Place {
        match self {
            Self::Mirror => Place {
                member: copy,
                offset,
            },
            Self::Stripes { chunk_bytes } => {
                let (row, member) = deal(offset / chunk_bytes, members);
                Place {
                    member,
                    offset: row
                        .saturating_mul(chunk_bytes.get())
                        .saturating_add(offset % chunk_bytes),
                }
            }
        }
    }
}

/// The `number`th of what is dealt out to `members` in turn: which row, and which member.
fn deal(number: u64, members: NonZeroUsize) -> (u64, usize) {
    let of = NonZeroU64::try_from(members).unwrap_or(NonZeroU64::MIN);
    // Less than `members`, which is a usize.
    (number / of, usize::try_from(number % of).unwrap_or(0))
}
