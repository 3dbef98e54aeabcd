//! RAID with parity: the placement of data, P and Q in a row, and the computation of lost members.
//!
//! The layouts are those of Linux, `raid5_compute_sector` in `drivers/md/raid5.c`; the parity is
//! that of H. Peter Anvin, "The mathematics of RAID-6".

use diskfs_block::{BlockRead, Error, Result, len_of};

use super::gf;
use super::{Area, Members};

/// The rotation of data and parity over the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rotation {
    /// # Panics
    /// moves down from the last member; data fills the others from the first on.
    LeftAsymmetric,
    /// # Panics
    /// moves up from the first member; data fills the others from the first on.
    RightAsymmetric,
    /// # Panics
    /// moves down from the last member; data begins after it.
    LeftSymmetric,
    /// # Panics
    /// moves up from the first member; data begins after it.
    RightSymmetric,
    /// # Panics
    /// is always on the first members.
    First,
    /// # Panics
    /// is always on the last members.
    Last,
    /// The DDF RAID6 layout in which P moves up from the first member.
    ZeroRestart,
    /// The DDF RAID6 layout in which P moves down, one ahead.
    NRestart,
    /// The DDF RAID6 layout in which Q is before P.
    NContinue,
}

/// The kind of parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    /// The parity of RAID4 and RAID5: P alone.
    P,
    /// The parity of RAID6: P and Q.
    PAndQ,
    /// The parity of a RAID6 made from RAID5: Q is always on the last member, and P rotates over
    /// the others.
    PAndLastQ,
}

/// A layout with parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parity {
    pub(crate) rotation: Rotation,
    pub(crate) sums: Sums,
}

/// The members with the parity of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    p: usize,
    q: Option<usize>,
    members: usize,
}

impl Parity {
    /// Returns how many members of a row hold parity.
    pub(super) fn sums(self) -> usize {
        match self.sums {
            Sums::P => 1,
            Sums::PAndQ | Sums::PAndLastQ => 2,
        }
    }

    /// Returns the member with the `index`th data chunk of a row.
    pub(super) fn data_member(self, row: u64, index: usize, members: usize) -> usize {
        let Row { p, .. } = self.row(row, members);
        let turning = self.turning(members);
        let after = |steps: usize| {
            let sum = p.saturating_add(steps).saturating_add(index);
            sum.checked_rem(turning).unwrap_or(0)
        };
        let skip = |steps: usize| {
            if index >= p {
                index.saturating_add(steps)
            } else {
                index
            }
        };
        match (self.rotation, self.sums) {
            (Rotation::First, sums) => {
                index.saturating_add(if sums == Sums::PAndQ { 2 } else { 1 })
            }
            (Rotation::Last, _) => index,
            (Rotation::LeftSymmetric | Rotation::RightSymmetric, Sums::PAndQ) => after(2),
            (Rotation::LeftSymmetric | Rotation::RightSymmetric | Rotation::NContinue, _) => {
                after(1)
            }
            // Q has wrapped around to the first member.
            (_, Sums::PAndQ) if p.saturating_add(1) == members => index.saturating_add(1),
            (_, Sums::PAndQ) => skip(2),
            _ => skip(1),
        }
    }

    /// Returns the number of members over which P rotates.
    fn turning(self, members: usize) -> usize {
        match self.sums {
            Sums::P | Sums::PAndQ => members,
            Sums::PAndLastQ => members.saturating_sub(1),
        }
    }

    fn row(self, row: u64, members: usize) -> Row {
        let turning = self.turning(members);
        let last = turning.saturating_sub(1);
        let of = |row: u64| {
            let turning = u64::try_from(turning).unwrap_or(u64::MAX);
            let rest = row.checked_rem(turning).unwrap_or(0);
            usize::try_from(rest).unwrap_or(0) // Less than `turning`.
        };
        let p = match self.rotation {
            Rotation::LeftAsymmetric | Rotation::LeftSymmetric | Rotation::NContinue => {
                last.saturating_sub(of(row))
            }
            Rotation::NRestart => last.saturating_sub(of(row.wrapping_add(1))),
            Rotation::RightAsymmetric | Rotation::RightSymmetric | Rotation::ZeroRestart => of(row),
            Rotation::First => 0,
            Rotation::Last if self.sums == Sums::PAndQ => last.saturating_sub(1),
            Rotation::Last => last,
        };
        let next = p.saturating_add(1);
        let q = match (self.sums, self.rotation) {
            (Sums::P, _) => None,
            (Sums::PAndLastQ, _) => Some(turning),
            (Sums::PAndQ, Rotation::NContinue) => Some(p.checked_sub(1).unwrap_or(last)),
            (Sums::PAndQ, _) => Some(if next == members { 0 } else { next }),
        };
        Row { p, q, members }
    }

    /// Returns the exponent of a member's data in Q.
    fn power(self, row: Row, member: usize) -> usize {
        let Some(q) = row.q else { return 0 };
        if matches!(
            self.rotation,
            Rotation::ZeroRestart | Rotation::NRestart | Rotation::NContinue
        ) {
            return member; // DDF counts the parity members, too.
        }
        let first = if q.saturating_add(1) == row.members {
            0
        } else {
            q.saturating_add(1)
        };
        let around = (first..row.members).chain(0..first);
        let data = around.filter(|&other| other != row.p && other != q);
        data.take_while(|&other| other != member).count()
    }
}

/// A row, read at one offset of all its members, of which some are lost.
struct Rebuild<'a, D: ?Sized> {
    members: &'a Members<D>,
    parity: Parity,
    row: Row,
    offset: u64,
}

/// The size of a piece in which lost data is computed: a read of any size needs memory for a few of
/// them.
const PIECE_BYTES: usize = 64 << 10;

/// Computes the bytes of `member` at `offset`, which is in `row`.
pub(super) fn rebuild<D: BlockRead + ?Sized>(
    members: &Members<D>,
    parity: Parity,
    row: u64,
    member: usize,
    offset: u64,
    buf: &mut [u8],
) -> Result<()> {
    let mut offset = offset;
    for piece in buf.chunks_mut(PIECE_BYTES) {
        let rebuild = Rebuild {
            members,
            parity,
            row: parity.row(row, members.areas.len()),
            offset,
        };
        rebuild.member(member, piece)?;
        offset = offset.saturating_add(len_of(piece));
    }
    Ok(())
}

impl<D: BlockRead + ?Sized> Rebuild<'_, D> {
    /// Computes the bytes of a data member.
    fn member(&self, lost: usize, out: &mut [u8]) -> Result<()> {
        let mut scratch = vec![0; out.len()];
        // # Panics
        // is enough unless another member is lost, too.
        if self.sum(&[lost], Sum::P, out, &mut scratch) {
            return Ok(());
        }
        let other = self.other_lost(lost, &mut scratch)?;
        if other != self.row.p {
            return self.two(lost, other, out, &mut scratch);
        }
        if !self.sum(&[lost], Sum::Q, out, &mut scratch) {
            return Err(too_few());
        }
        gf::scale(out, gf::inverse(self.factor(lost)));
        Ok(())
    }

    /// Returns the other unreadable member, if Q can replace it.
    fn other_lost(&self, lost: usize, scratch: &mut [u8]) -> Result<usize> {
        let others = (0..self.row.members).filter(|&member| member != lost);
        let gone: Vec<usize> = others
            .filter(|&member| !self.read(member, scratch))
            .collect();
        match gone[..] {
            [other] if self.row.q.is_some_and(|q| q != other) => Ok(other),
            _ => Err(too_few()),
        }
    }

    /// Computes two data members from P and Q.
    fn two(&self, x: usize, y: usize, out: &mut [u8], scratch: &mut [u8]) -> Result<()> {
        let mut q = vec![0; out.len()];
        if !self.sum(&[x, y], Sum::Q, &mut q, scratch) || !self.sum(&[x, y], Sum::P, out, scratch) {
            return Err(too_few());
        }
        // # Panics
        // = Dx + Dy and Q = gx Dx + gy Dy, so Dx = (Q + gy P) / (gx + gy).
        let [gx, gy] = [x, y].map(|member| self.factor(member));
        gf::scale(out, gy);
        gf::add(out, &q);
        gf::scale(out, gf::inverse(gx ^ gy));
        Ok(())
    }

    /// Returns the factor of a member's data in Q.
    fn factor(&self, member: usize) -> u8 {
        gf::power(self.parity.power(self.row, member))
    }

    /// Adds P or Q and all data except that of `without`; returns whether everything could be read.
    fn sum(&self, without: &[usize], sum: Sum, out: &mut [u8], scratch: &mut [u8]) -> bool {
        out.fill(0);
        for member in 0..self.row.members {
            let (is_p, is_q) = (member == self.row.p, Some(member) == self.row.q);
            let other_sum = is_p && sum == Sum::Q || is_q && sum == Sum::P;
            if other_sum || without.contains(&member) {
                continue;
            }
            if !self.read(member, scratch) {
                return false;
            }
            if sum == Sum::Q && !is_q {
                gf::scale(scratch, self.factor(member));
            }
            gf::add(out, scratch);
        }
        true
    }

    /// Reads a member; returns whether that succeeded.
    fn read(&self, member: usize, buf: &mut [u8]) -> bool {
        let area: Option<&Area<D>> = self.members.areas.get(member).and_then(Option::as_ref);
        area.is_some_and(|area| area.read_at(self.offset, buf).is_ok())
    }
}

/// The kind of parity, P or Q.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sum {
    P,
    Q,
}

fn too_few() -> Error {
    Error::new(
        diskfs_block::ErrorKind::NotFound,
        "too many members of the RAID are missing or cannot be read",
    )
}
