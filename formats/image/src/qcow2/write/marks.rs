//! The bits of a bitmap in memory.

use std::collections::BTreeMap;

use diskfs_block::bytes::is_zero;

use crate::numbers::{low_bits, power_of_two, shift_right, to_u64, to_usize};
use crate::qcow2::units::Geometry;

/// The size of a piece in bytes; only pieces with set bits are kept.
const PIECE: usize = 4096;
/// The binary logarithm of the number of bits in a piece.
const PIECE_BITS: u32 = 15;
/// The largest number of pieces of one bitmap: 64 MiB, for 32 TiB at QEMU's default granularity. A
/// bitmap that needs more is lost.
const PIECES_MAX: u64 = 1 << 14;

/// The marked ranges of the disk, one bit for each unit of the granularity.
#[derive(Debug)]
pub(super) struct Marks {
    granularity_bits: u32,
    pieces: BTreeMap<u64, Box<[u8; PIECE]>>,
    lost: bool,
}

impl Marks {
    pub(super) const fn new(granularity_bytes: u64) -> Self {
        Self {
            granularity_bits: granularity_bytes.trailing_zeros(),
            pieces: BTreeMap::new(),
            lost: false,
        }
    }

    /// Returns true if the bits are incomplete, because they would need too much memory.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Marks a range of the disk, which must not be empty.
    pub(super) fn mark(&mut self, start: u64, end: u64) {
        let first = shift_right(start, self.granularity_bits);
        let last = shift_right(end.saturating_sub(1), self.granularity_bits);
        let pieces = shift_right(last, PIECE_BITS)
            .saturating_sub(shift_right(first, PIECE_BITS))
            .saturating_add(to_u64(self.pieces.len()));
        self.lost |= pieces > PIECES_MAX;
        if self.lost {
            self.pieces.clear();
            return;
        }
        let mut bit = first;
        while bit <= last {
            let number = shift_right(bit, PIECE_BITS);
            let piece = self.pieces.entry(number);
            let piece = piece.or_insert_with(|| Box::new([0; PIECE]));
            let end = number
                .saturating_add(1)
                .saturating_mul(power_of_two(PIECE_BITS));
            while bit <= last && bit < end {
                let in_piece = to_usize(low_bits(bit, PIECE_BITS));
                if let Some(byte) = piece.get_mut(in_piece / 8) {
                    // Bit 0 is the least significant one.
                    *byte |= 1_u8.rotate_left(u32::try_from(in_piece % 8).unwrap_or(0));
                }
                bit = bit.saturating_add(1);
            }
        }
    }

    /// Returns the parts with set bits, in order, each within one cluster: the index of the first
    /// byte in the bitmap, and the bytes.
    pub(super) fn parts(&self, geometry: Geometry) -> impl Iterator<Item = (u64, &[u8])> {
        let len = PIECE.min(to_usize(geometry.cluster_size()));
        self.pieces.iter().flat_map(move |(number, piece)| {
            let start = number.saturating_mul(to_u64(PIECE));
            let parts = (0_u64..).zip(piece.chunks(len));
            let parts = parts.filter(|(_, part)| !is_zero(part));
            parts.map(move |(index, part)| {
                let at = start.saturating_add(index.saturating_mul(to_u64(len)));
                (at, part)
            })
        })
    }
}
