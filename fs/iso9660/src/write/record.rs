//! Directory records (ECMA-119, 9.1).

use crate::date_time::SHORT_BYTES;

use super::{push_both_16, push_both_32};

/// The flag of a directory (9.1.6).
const DIRECTORY: u8 = 0x02;

/// A run of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) block: u32,
    pub(super) len_bytes: u32,
}

/// A directory record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) identifier: &'a [u8],
    pub(super) extent: Extent,
    pub(super) time: [u8; SHORT_BYTES],
    pub(super) is_directory: bool,
    pub(super) system_use: &'a [u8],
}

impl Record<'_> {
    /// Returns the bytes of the record. Names and entries of a new volume are short enough for it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0];
        push_both_32(&mut bytes, self.extent.block);
        push_both_32(&mut bytes, self.extent.len_bytes);
        bytes.extend_from_slice(&self.time);
        bytes.push(if self.is_directory { DIRECTORY } else { 0 });
        // Not interleaved, and on the first volume of the set.
        bytes.extend_from_slice(&[0, 0]);
        push_both_16(&mut bytes, 1);
        bytes.push(u8::try_from(self.identifier.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(self.identifier);
        pad(&mut bytes);
        bytes.extend_from_slice(self.system_use);
        pad(&mut bytes);
        let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        if let Some(first) = bytes.first_mut() {
            *first = len;
        }
        bytes
    }
}

/// Pads to an even length.
fn pad(bytes: &mut Vec<u8>) {
    if !bytes.len().is_multiple_of(2) {
        bytes.push(0);
    }
}
