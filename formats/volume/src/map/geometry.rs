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
    /// Pieces, each on several members, dealt out in turn: RAID10.
    Raid10 {
        /// Bytes in a piece.
        chunk_bytes: NonZeroU64,
        /// How many members have each piece beside one another: "near" copies.
        copies: NonZeroUsize,
        /// How often all of that is there.
        far: Far,
    },
    /// Pieces dealt out in turn, with sums from which lost ones can be computed.
    Parity {
        /// Bytes in a piece.
        chunk_bytes: NonZeroU64,
        /// Where data and sums are.
        parity: Parity,
    },
}

/// Copies of a RAID10 that are further down, on other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Far {
    /// With the first.
    pub(crate) copies: NonZeroUsize,
    /// How much further down each is.
    pub(crate) stride_bytes: u64,
    /// Each row is followed by its copies ("offset"); else all rows are.
    pub(crate) is_offset: bool,
    /// Copies stay among so many members.
    pub(crate) set: NonZeroUsize,
}

impl Far {
    /// There is but the first.
    pub(crate) const NONE: Self = Self {
        copies: NonZeroUsize::MIN,
        stride_bytes: 0,
        is_offset: false,
        set: NonZeroUsize::MAX,
    };

    /// The member that has the next copy of what `member` has. `__raid10_find_phys`, Linux,
    /// `drivers/md/raid10.c`.
    fn next_member(self, member: usize, near: usize, members: usize) -> usize {
        let set = self.set.get();
        let rest = members.checked_rem(set).unwrap_or(0);
        let next = member.saturating_add(near);
        let (start, len) = if rest == 0 {
            (member.saturating_sub(member % self.set), set)
        } else {
            // The last set takes what is left, too.
            let last = members.saturating_sub(rest).saturating_sub(set);
            if next > last {
                (last, set.saturating_add(rest))
            } else {
                (member.saturating_sub(member % self.set), set)
            }
        };
        let within = next.saturating_sub(start).checked_rem(len).unwrap_or(0);
        start.saturating_add(within)
    }
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
            Self::Raid10 { .. } => self.least_members().saturating_sub(1),
            Self::Parity { parity, .. } => parity.sums(),
        }
    }

    /// How large what takes `each` bytes, whole pieces, of each of its members is.
    pub(crate) fn size_bytes(self, each: u64, members: usize, chunk_bytes: u64) -> Option<u64> {
        let members = u64::try_from(members).ok()?;
        match self {
            Self::Mirror => Some(each),
            Self::Stripes { .. } => each.checked_mul(members),
            Self::Raid10 { copies, far, .. } => {
                let pieces = each.checked_div(chunk_bytes)?;
                let pieces = pieces.checked_div(u64::try_from(far.copies.get()).ok()?)?;
                let pieces = pieces.checked_mul(members)?;
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
            Self::Raid10 { copies, far, .. } => copies.saturating_mul(far.copies).get(),
            Self::Parity { parity, .. } => parity.sums().saturating_add(1),
        }
    }

    /// How many copies there are of each byte.
    pub(super) fn copies(self, members: NonZeroUsize) -> usize {
        match self {
            Self::Mirror => members.get(),
            Self::Stripes { .. } | Self::Parity { .. } => 1,
            Self::Raid10 { .. } => self.least_members(),
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
                far,
            } => raid10(offset, copy, members, (chunk_bytes, copies, far)),
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

fn raid10(
    offset: u64,
    copy: usize,
    members: NonZeroUsize,
    (chunk_bytes, near, far): (NonZeroU64, NonZeroUsize, Far),
) -> Place {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (down, beside) = (copy / near, copy % near);
    let number = (offset / chunk_bytes).saturating_mul(wide(near.get()));
    let (row, first) = deal(number, members);
    let rows = if far.is_offset { far.copies.get() } else { 1 };
    let row = row.saturating_mul(wide(rows));
    // Those beside may go on in the next row.
    let (more, member) = deal(wide(first.saturating_add(beside)), members);
    let member = (0..down).fold(member, |member, _| {
        far.next_member(member, near.get(), members.get())
    });
    let place = Place::in_row(row.saturating_add(more), member, offset, chunk_bytes);
    let further = far.stride_bytes.saturating_mul(wide(down));
    Place {
        offset: place.offset.saturating_add(further),
        ..place
    }
}

/// The `number`th of what is dealt out to `members` in turn: which row, and which member.
fn deal(number: u64, members: NonZeroUsize) -> (u64, usize) {
    let of = NonZeroU64::try_from(members).unwrap_or(NonZeroU64::MIN);
    // Less than `members`, which is a usize.
    (number / of, usize::try_from(number % of).unwrap_or(0))
}
