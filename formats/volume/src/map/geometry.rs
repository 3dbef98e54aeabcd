//! Where the bytes of a segment are on its members: arithmetic only.
//!
//! Sums saturate: what that makes wrong lies past the end of every member, which says so.

use std::num::{NonZeroU64, NonZeroUsize};

use super::parity::Parity;

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
    /// Pieces, each on several members, dealt out in turn: RAID10, "near" copies.
    Raid10 {
        /// Bytes in a piece.
        chunk_bytes: NonZeroU64,
        /// How many members have each piece.
        copies: NonZeroUsize,
    },
    /// Pieces dealt out in turn, with sums from which lost ones can be computed.
    Parity {
        /// Bytes in a piece.
        chunk_bytes: NonZeroU64,
        /// Where data and sums are.
        parity: Parity,
    },
}

/// A place on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which member.
    pub(crate) member: usize,
    /// In which row of pieces it is; zero where there are none.
    pub(crate) row: u64,
    /// The byte of it.
    pub(crate) offset: u64,
}

impl Geometry {
    /// How many bytes from `offset` on lie together on one member; `left` are there to the end of
    /// the segment.
    pub(super) fn run_bytes(self, offset: u64, left: u64) -> u64 {
        match self {
            Self::Mirror => left,
            Self::Stripes { chunk_bytes }
            | Self::Raid10 { chunk_bytes, .. }
            | Self::Parity { chunk_bytes, .. } => {
                left.min(chunk_bytes.get().saturating_sub(offset % chunk_bytes))
            }
        }
    }

    /// How many members may be missing without anything being lost, whichever they are. Sums that
    /// are not in sync rebuild garbage: then none.
    pub(crate) fn spare(self, members: usize, in_sync: bool) -> usize {
        match self {
            Self::Parity { .. } if !in_sync => 0,
            Self::Mirror => members.saturating_sub(1),
            Self::Stripes { .. } => 0,
            Self::Raid10 { copies, .. } => copies.get().saturating_sub(1),
            Self::Parity { parity, .. } => parity.sums(),
        }
    }

    /// How large what takes `each` bytes, whole pieces, of each of its members is.
    pub(crate) fn size_bytes(self, each: u64, members: usize, chunk_bytes: u64) -> Option<u64> {
        let members = u64::try_from(members).ok()?;
        match self {
            Self::Mirror => Some(each),
            Self::Stripes { .. } => each.checked_mul(members),
            Self::Raid10 { copies, .. } => {
                let pieces = each.checked_div(chunk_bytes)?.checked_mul(members)?;
                let pieces = pieces.checked_div(u64::try_from(copies.get()).ok()?)?;
                pieces.checked_mul(chunk_bytes)
            }
            Self::Parity { parity, .. } => {
                let data = members.checked_sub(u64::try_from(parity.sums()).ok()?)?;
                each.checked_mul(data)
            }
        }
    }

    /// How many members it takes.
    pub(crate) fn least_members(self) -> usize {
        match self {
            Self::Mirror | Self::Stripes { .. } => 1,
            Self::Raid10 { copies, .. } => copies.get(),
            Self::Parity { parity, .. } => parity.sums().saturating_add(1),
        }
    }

    /// How many copies there are of each byte.
    pub(super) fn copies(self, members: NonZeroUsize) -> usize {
        match self {
            Self::Mirror => members.get(),
            Self::Stripes { .. } | Self::Parity { .. } => 1,
            Self::Raid10 { copies, .. } => copies.get(),
        }
    }

    /// Where a copy of the byte at `offset` is.
    pub(super) fn place(self, offset: u64, copy: usize, members: NonZeroUsize) -> Place {
        match self {
            Self::Mirror => Place {
                member: copy,
                row: 0,
                offset,
            },
            Self::Stripes { chunk_bytes } => {
                let (row, member) = deal(offset / chunk_bytes, members);
                Place::in_row(row, member, offset, chunk_bytes)
            }
            Self::Raid10 {
                chunk_bytes,
                copies,
            } => {
                let copies = u64::try_from(copies.get()).unwrap_or(u64::MAX);
                let copy = u64::try_from(copy).unwrap_or(u64::MAX);
                let number = (offset / chunk_bytes).saturating_mul(copies);
                let (row, member) = deal(number.saturating_add(copy), members);
                Place::in_row(row, member, offset, chunk_bytes)
            }
            Self::Parity {
                chunk_bytes,
                parity,
            } => {
                let data = members.get().saturating_sub(parity.sums());
                let data = NonZeroUsize::new(data).unwrap_or(NonZeroUsize::MIN);
                let (row, index) = deal(offset / chunk_bytes, data);
                let member = parity.data_member(row, index, members.get());
                Place::in_row(row, member, offset, chunk_bytes)
            }
        }
    }
}

impl Place {
    /// The byte at `offset` of a segment, in a piece of that row of the member.
    fn in_row(row: u64, member: usize, offset: u64, chunk_bytes: NonZeroU64) -> Self {
        Self {
            member,
            row,
            offset: row
                .saturating_mul(chunk_bytes.get())
                .saturating_add(offset % chunk_bytes),
        }
    }
}

/// The `number`th of what is dealt out to `members` in turn: which row, and which member.
fn deal(number: u64, members: NonZeroUsize) -> (u64, usize) {
    let of = NonZeroU64::try_from(members).unwrap_or(NonZeroU64::MIN);
    // Less than `members`, which is a usize.
    (number / of, usize::try_from(number % of).unwrap_or(0))
}
