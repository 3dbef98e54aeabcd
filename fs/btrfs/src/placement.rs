//! The places of a chunk's bytes on its stripes.

use crate::chunk::{Chunk, Profile, STRIPE_BYTES};

/// A run of a chunk's bytes that lies contiguously on one stripe, and on its mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The stripe with the first copy; its mirrors follow it.
    pub(crate) stripe: usize,
    /// The number of stripes that have the bytes themselves.
    pub(crate) copies: usize,
    /// The offset within each of the stripes.
    pub(crate) offset: u64,
    /// The length up to which the bytes are contiguous.
    pub(crate) len_bytes: u64,
    /// The row of a profile with parity.
    pub(crate) row: Option<Row>,
}

/// A row of a profile with parity: one piece of [`STRIPE_BYTES`] on each stripe. The stripes change
/// their roles from row to row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) data: usize,
    pub(crate) parity: usize,
    /// The role of the wanted piece: its index among the data of the row.
    pub(crate) role: usize,
}

impl Row {
    /// Returns the number of stripes.
    pub(crate) fn stripes(self) -> usize {
        self.data.saturating_add(self.parity)
    }

    /// Returns the stripe with a role in this row: data first, then P, then Q.
    pub(crate) fn stripe_of(self, role: usize) -> usize {
        rotated(self.number, role, self.stripes())
    }
}

/// Returns the stripe with a role in a row: roles move by one stripe from row to row.
fn rotated(row: u64, role: usize, stripes: usize) -> usize {
    let count = crate::bytes::len_u64(stripes);
    let shift = crate::bytes::index(row.checked_rem(count).unwrap_or(0));
    shift.saturating_add(role).checked_rem(stripes).unwrap_or(0)
}

impl Chunk {
    /// Returns the place of the byte `offset` of the chunk, and the run that starts there.
    pub(crate) fn place(&self, offset: u64) -> Placement {
        let rest = self.len_bytes.saturating_sub(offset);
        let whole = |copies| Placement {
            stripe: 0,
            copies,
            offset,
            len_bytes: rest,
            row: None,
        };
        match self.profile {
            Profile::Single | Profile::Raid0 { stripes: 1 } => whole(1),
            Profile::Mirrored { copies } => whole(copies),
            Profile::Raid0 { stripes } => striped(offset, rest, stripes, 1),
            Profile::Raid10 { pairs } => striped(offset, rest, pairs, 2),
            Profile::Parity { data, parity } => with_parity(offset, rest, data, parity),
        }
    }
}

/// Splits an offset into the number of its stripe piece, and the offset within that.
fn pieces(offset: u64) -> (u64, u64) {
    (offset.wrapping_div(STRIPE_BYTES), offset % STRIPE_BYTES)
}

fn striped(offset: u64, rest: u64, columns: usize, copies: usize) -> Placement {
    let (piece, within) = pieces(offset);
    let count = crate::bytes::len_u64(columns).max(1);
    let column = crate::bytes::index(piece.checked_rem(count).unwrap_or(0));
    let row = piece.checked_div(count).unwrap_or(0);
    Placement {
        stripe: column.saturating_mul(copies),
        copies,
        offset: row.saturating_mul(STRIPE_BYTES).saturating_add(within),
        len_bytes: STRIPE_BYTES.saturating_sub(within).min(rest),
        row: None,
    }
}

fn with_parity(offset: u64, rest: u64, data: usize, parity: usize) -> Placement {
    let (piece, within) = pieces(offset);
    let count = crate::bytes::len_u64(data).max(1);
    let row = Row {
        number: piece.checked_div(count).unwrap_or(0),
        data,
        parity,
        role: crate::bytes::index(piece.checked_rem(count).unwrap_or(0)),
    };
    Placement {
        stripe: row.stripe_of(row.role),
        copies: 1,
        offset: row
            .number
            .saturating_mul(STRIPE_BYTES)
            .saturating_add(within),
        len_bytes: STRIPE_BYTES.saturating_sub(within).min(rest),
        row: Some(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::BlockGroupType;
    use crate::logical::Logical;

    fn place(profile: Profile, offset: u64) -> (usize, usize, u64, u64) {
        let chunk = Chunk {
            start: Logical(0),
            len_bytes: 1 << 30,
            block_group: BlockGroupType(1),
            profile,
            stripes: Vec::new(),
        };
        let p = chunk.place(offset);
        (p.stripe, p.copies, p.offset, p.len_bytes)
    }

    const K64: u64 = STRIPE_BYTES;

    #[test]
    fn bytes_are_spread_as_the_profile_says() {
        let single = place(Profile::Single, 5 * K64 + 7);
        assert_eq!(single, (0, 1, 5 * K64 + 7, (1 << 30) - 5 * K64 - 7));
        let raid0 = place(Profile::Raid0 { stripes: 3 }, 5 * K64 + 7);
        assert_eq!(raid0, (2, 1, K64 + 7, K64 - 7));
        let raid10 = place(Profile::Raid10 { pairs: 2 }, 5 * K64);
        assert_eq!(raid10, (2, 2, 2 * K64, K64));
        let raid5 = Profile::Parity { data: 2, parity: 1 };
        // Row 0 has data on 0 and 1; row 1 on 1 and 2; row 2 on 2 and 0.
        let stripes = [0, 1, 2, 3, 4, 5].map(|n| place(raid5, n * K64).0);
        assert_eq!(stripes, [0, 1, 1, 2, 2, 0]);
        let row = Row {
            number: 2,
            data: 2,
            parity: 2,
            role: 0,
        };
        assert_eq!([0, 1, 2, 3].map(|role| row.stripe_of(role)), [2, 3, 0, 1]);
    }
}
