//! The arithmetic that maps bytes of a segment to its members.
//!
//! Sums saturate: a wrong result lies past the end of every member, and is refused there.

use std::num::{NonZeroU64, NonZeroUsize};

use super::parity::Parity;

/// The layout of a segment on its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Geometry {
    /// A mirror: the same bytes on each member. With a single member it is linear.
    Mirror,
    /// Chunks of a fixed size, assigned to the members in turn.
    Stripes {
        /// The size of a chunk in bytes.
        chunk_bytes: NonZeroU64,
    },
    /// Chunks with copies on several members, assigned in turn: RAID10.
    Raid10 {
        /// The size of a chunk in bytes.
        chunk_bytes: NonZeroU64,
        /// The number of adjacent members with a copy of each chunk: "near" copies.
        copies: NonZeroUsize,
        /// The "far" copies of all of that.
        far: Far,
    },
    /// Chunks assigned in turn, with parity from which lost ones can be computed.
    Parity {
        /// The size of a chunk in bytes.
        chunk_bytes: NonZeroU64,
        /// The placement of data and parity.
        parity: Parity,
    },
}

/// The "far" copies of a RAID10, at higher offsets on other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Far {
    /// The number of copies, including the first.
    pub(crate) copies: NonZeroUsize,
    /// The distance of each copy from the previous one in bytes.
    pub(crate) stride_bytes: u64,
    /// True if each row is followed by its copies ("offset"); otherwise the copies follow all rows.
    pub(crate) is_offset: bool,
    /// The number of members among which copies stay.
    pub(crate) set: NonZeroUsize,
}

impl Far {
    /// The value for no far copies, only the first.
    pub(crate) const NONE: Self = Self {
        copies: NonZeroUsize::MIN,
        stride_bytes: 0,
        is_offset: false,
        set: NonZeroUsize::MAX,
    };

    /// Returns the member with the next copy of a chunk of `member`. `__raid10_find_phys`, Linux,
    /// `drivers/md/raid10.c`.
    fn next_member(self, member: usize, near: usize, members: usize) -> usize {
        let set = self.set.get();
        let rest = members.checked_rem(set).unwrap_or(0);
        let next = member.saturating_add(near);
        let (start, len) = if rest == 0 {
            (member.saturating_sub(member % self.set), set)
        } else {
            // The last set includes the remaining members.
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

/// A location on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemberLocation {
    /// The index of the member.
    pub(crate) member: usize,
    /// The row of chunks; zero for layouts without rows.
    pub(crate) row: u64,
    /// The offset on the member in bytes.
    pub(crate) offset: u64,
}

impl Geometry {
    /// Returns how many bytes from `offset` on are contiguous on one member, at most `left`, the
    /// rest of the segment.
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

    /// Returns how many members may be missing without data loss, whichever they are: none if
    /// parity is not in sync, because it would rebuild garbage.
    pub(crate) fn spare(self, members: usize, in_sync: bool) -> usize {
        match self {
            Self::Parity { .. } if !in_sync => 0,
            Self::Mirror => members.saturating_sub(1),
            Self::Stripes { .. } => 0,
            Self::Raid10 { .. } => self.least_members().saturating_sub(1),
            Self::Parity { parity, .. } => parity.sums(),
        }
    }

    /// Returns the size of a segment that uses `each` bytes, in whole chunks, of each of its
    /// members.
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

    /// Returns the smallest number of members.
    pub(crate) fn least_members(self) -> usize {
        match self {
            Self::Mirror | Self::Stripes { .. } => 1,
            Self::Raid10 { copies, far, .. } => copies.saturating_mul(far.copies).get(),
            Self::Parity { parity, .. } => parity.sums().saturating_add(1),
        }
    }

    /// Returns the number of copies of each byte.
    pub(super) fn copies(self, members: NonZeroUsize) -> usize {
        match self {
            Self::Mirror => members.get(),
            Self::Stripes { .. } | Self::Parity { .. } => 1,
            Self::Raid10 { .. } => self.least_members(),
        }
    }

    /// Returns the location of a copy of the byte at `offset`.
    pub(super) fn place(self, offset: u64, copy: usize, members: NonZeroUsize) -> MemberLocation {
        match self {
            Self::Mirror => MemberLocation {
                member: copy,
                row: 0,
                offset,
            },
            Self::Stripes { chunk_bytes } => {
                let (row, member) = deal(offset / chunk_bytes, members);
                MemberLocation::in_row(row, member, offset, chunk_bytes)
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
                MemberLocation::in_row(row, member, offset, chunk_bytes)
            }
        }
    }
}

impl MemberLocation {
    /// Returns the location of the byte at `offset` of a segment, in a chunk of that row of the
    /// member.
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
) -> MemberLocation {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (down, beside) = (copy / near, copy % near);
    let number = (offset / chunk_bytes).saturating_mul(wide(near.get()));
    let (row, first) = deal(number, members);
    let rows = if far.is_offset { far.copies.get() } else { 1 };
    let row = row.saturating_mul(wide(rows));
    // Near copies may continue in the next row.
    let (more, member) = deal(wide(first.saturating_add(beside)), members);
    let member = (0..down).fold(member, |member, _| {
        far.next_member(member, near.get(), members.get())
    });
    let place = MemberLocation::in_row(row.saturating_add(more), member, offset, chunk_bytes);
    let further = far.stride_bytes.saturating_mul(wide(down));
    MemberLocation {
        offset: place.offset.saturating_add(further),
        ..place
    }
}

/// Assigns the item `number` to `members` in turn: returns its row and its member.
fn deal(number: u64, members: NonZeroUsize) -> (u64, usize) {
    let of = NonZeroU64::try_from(members).unwrap_or(NonZeroU64::MIN);
    // The remainder is less than `members`, which is a usize.
    (number / of, usize::try_from(number % of).unwrap_or(0))
}
