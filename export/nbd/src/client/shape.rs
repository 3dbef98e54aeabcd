//! The properties of an export, as its server describes them.

use crate::protocol::{Headers, MAX_PAYLOAD_BYTES, TransmissionFlags, Violation};

/// The length of the pieces in which long requests are sent, so that several are in flight.
const PIECE_BYTES: u32 = 1 << 20;

/// The unit of requests if the server doesn't tell one (section "Size constraints").
const DEFAULT_UNIT: u32 = 512;

/// The largest minimum block size (section "Size constraints").
const MAX_UNIT: u32 = 64 << 10;

/// The properties of an export, which stay the same for all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) size_bytes: u64,
    pub(super) flags: TransmissionFlags,
    /// The unit of offsets and lengths, a power of two.
    pub(super) unit: u32,
    /// The unit in which requests are cheapest, a power of two.
    pub(super) preferred: u32,
    /// The length of the longest request.
    pub(super) max_bytes: u32,
    /// True if the server has the metadata context `base:allocation`.
    pub(super) has_allocation: bool,
}

impl Shape {
    /// Checks the properties. `sizes` are the minimum, the preferred and the maximum block size.
    pub(super) fn new(
        size_bytes: u64,
        flags: TransmissionFlags,
        sizes: Option<(u32, u32, u32)>,
    ) -> Result<Self, Violation> {
        let is_odd = !size_bytes.is_multiple_of(DEFAULT_UNIT.into());
        let default_unit = if is_odd { 1 } else { DEFAULT_UNIT };
        let (unit, preferred, maximum) = sizes.unwrap_or((default_unit, 4096, MAX_PAYLOAD_BYTES));
        let is_valid = unit.is_power_of_two()
            && unit <= MAX_UNIT
            && preferred.is_power_of_two()
            && preferred >= unit
            && maximum >= unit;
        if !is_valid {
            return Err(Violation("invalid block sizes of an export"));
        }
        if !size_bytes.is_multiple_of(unit.into()) || i64::try_from(size_bytes).is_err() {
            return Err(Violation("invalid size of an export"));
        }
        let max_bytes = maximum.min(MAX_PAYLOAD_BYTES);
        // A multiple of the unit: one is a power of two, the other at least as large.
        let max_bytes = max_bytes.saturating_sub(max_bytes.checked_rem(unit).unwrap_or(0));
        Ok(Self {
            size_bytes,
            flags,
            unit,
            preferred,
            max_bytes,
            has_allocation: false,
        })
    }

    /// Returns the length of the pieces of long requests.
    pub(super) fn piece_bytes(&self) -> u32 {
        PIECE_BYTES.min(self.max_bytes)
    }

    pub(super) fn has(&self, flag: TransmissionFlags) -> bool {
        self.flags.contains(flag)
    }
}

/// An export that is open in one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    pub(super) shape: Shape,
    pub(super) headers: Headers,
    /// The number of `base:allocation`, if the server has it.
    pub(super) allocation: Option<u32>,
}
