//! Rebuilding pieces of RAID5 and RAID6.

use super::{Storage, no_copy};
use crate::chunk::Chunk;
use crate::error::{Result, unsupported};
use crate::parity::{self, Pieces};
use crate::placement::{Placement, Row};

/// The largest number of stripes of a row that is rebuilt, so that its pieces stay below 16 MiB.
const MAX_STRIPES: usize = 256;

impl Storage {
    /// Fills `piece` from the other pieces of its row. The first copy uses all that can be read;
    /// the following ones presume that one more of them, each in turn, is wrong.
    pub(super) fn rebuild(
        &self,
        chunk: &Chunk,
        placement: &Placement,
        row: Row,
        piece: &mut [u8],
        copy: usize,
    ) -> Result<u64> {
        if row.stripes() > MAX_STRIPES {
            return Err(unsupported(
                "rebuilding btrfs from more than 256 devices is not supported",
            ));
        }
        let presumed_wrong = copy.checked_sub(2);
        let mut failure = None;
        let mut pieces = Pieces::with_capacity(row.stripes());
        for role in 0..row.stripes() {
            if role == row.role || Some(role) == presumed_wrong {
                pieces.push(None);
                continue;
            }
            let mut other = vec![0; piece.len()];
            let place = self.place_of(chunk, row.stripe_of(role), placement.offset);
            let read = place.and_then(|place| self.member(place)?.read(place.offset, &mut other));
            pieces.push(read.map(|()| other).map_err(|e| failure = Some(e)).ok());
        }
        match parity::rebuild(&pieces, row.data, row.role) {
            Some(rebuilt) => piece.copy_from_slice(&rebuilt),
            None => return Err(failure.unwrap_or_else(|| no_copy(chunk.start))),
        }
        let stripe = chunk.stripes.get(placement.stripe);
        Ok(stripe.map_or(0, |stripe| stripe.offset.saturating_add(placement.offset)))
    }
}
