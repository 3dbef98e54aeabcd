//! The location of the data and its encryption.

use crate::cipher_spec::CipherSpec;

/// The encrypted part of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset_bytes: u64,
    /// The length in bytes; `None` for up to the device's end.
    pub(crate) len_bytes: Option<u64>,
    pub(crate) sector_bytes: u32,
    /// The number that is added to each sector number to get the vector's number.
    pub(crate) iv_tweak: u64,
    pub(crate) cipher: CipherSpec,
    /// True if the header allows discards to reach the device, which reveals unused sectors.
    pub(crate) allows_discards: bool,
}
