//! Where the data is and how it is encrypted.

use crate::cipher_spec::CipherSpec;

/// The encrypted part of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset_bytes: u64,
    /// `None`: to the device's end.
    pub(crate) len_bytes: Option<u64>,
    pub(crate) sector_bytes: u32,
    /// Added to the number of each sector, as vectors count them.
    pub(crate) iv_tweak: u64,
    pub(crate) cipher: CipherSpec,
    /// Whether the header lets discards reach the device, which shows where nothing is stored.
    pub(crate) allows_discards: bool,
}
