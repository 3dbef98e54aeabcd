//! `EFI_TIME`. UEFI 8.3.

use std::fmt;

use zerocopy::little_endian::{I16, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A time as it is in the store, which may be an invalid date. Displayed as `2024-02-29T12:00:00`.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct Time {
    year: U16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    pad_1: u8,
    nanosecond: U32,
    zone: I16,
    daylight: u8,
    pad_2: u8,
}

const _: () = assert!(size_of::<Time>() == 16);

impl Time {
    /// Returns true for no time: variables that are not signed have zeroes.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bytes in the store.
    pub fn to_bytes(&self) -> [u8; 16] {
        zerocopy::transmute!(*self)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = (self.year, self.month, self.day);
        let (hour, minute, second) = (self.hour, self.minute, self.second);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )
    }
}
