//! The LUKS2 format: a header in two copies, each with a binary part, a checksum and JSON.
//!
//! LUKS2 on-disk format specification 1.1.

mod binary_header;
mod create;
mod keyslot;
mod metadata;
mod objects;

use diskfs_block::{BlockRead, Error, Result};

use crate::header::Header;
use binary_header::{Copy, Role};

pub(crate) use create::{AREA_OFFSET_BYTES, CIPHER, DATA_OFFSET_BYTES, HASH, NewHeader, STRIPES};

/// The length of the binary header; the JSON area follows.
pub(crate) const BINARY_HEADER_BYTES: usize = 4096;

/// The valid sizes of a copy (specification, table 1). The secondary copy follows the primary.
const COPY_BYTES: [u64; 9] = [
    0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000,
];

/// Reads the newest valid copy; returns `None` if the device has no LUKS2 header.
pub(crate) fn read(device: &dyn BlockRead) -> Result<Option<Header>> {
    let primary = Copy::read(device, 0, Role::Primary)?;
    let secondary = match &primary {
        Some(Ok(copy)) => Copy::read(device, copy.size_bytes(), Role::Secondary)?,
        _ => find_secondary(device)?,
    };
    match (primary, secondary) {
        (Some(Ok(primary)), Some(Ok(secondary))) => Ok(Some(newer(primary, secondary))),
        (Some(Ok(copy)), None) => Ok(Some(warn(copy, "the header's second copy is missing"))),
        (Some(Ok(copy)), Some(Err(reason))) => {
            let text = format!("the header's second copy {reason}; the first is used");
            Ok(Some(warn(copy, text)))
        }
        (None, Some(Ok(copy))) => {
            let text = "the header's first copy is missing; the second is used";
            Ok(Some(warn(copy, text)))
        }
        (Some(Err(reason)), Some(Ok(copy))) => {
            let text = format!("the header's first copy {reason}; the second is used");
            Ok(Some(warn(copy, text)))
        }
        (None, None) => Ok(None),
        (Some(Err(reason)), _) | (None, Some(Err(reason))) => {
            let reason = format!("neither copy of the LUKS2 header can be used: one {reason}");
            Err(Error::corrupt(reason).with_hint("try `cryptsetup repair` on a copy of the image"))
        }
    }
}

/// Returns the first valid secondary copy at any of its possible offsets; otherwise the problem of
/// the first invalid one.
fn find_secondary(device: &dyn BlockRead) -> Result<Option<std::result::Result<Copy, String>>> {
    let mut broken = None;
    for offset in COPY_BYTES {
        match Copy::read(device, offset, Role::Secondary)? {
            Some(Ok(copy)) => return Ok(Some(Ok(copy))),
            Some(Err(reason)) => broken = broken.or(Some(reason)),
            None => {}
        }
    }
    Ok(broken.map(Err))
}

fn newer(primary: Copy, secondary: Copy) -> Header {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match primary.sequence.cmp(&secondary.sequence) {
        Equal => primary.header,
        Greater => warn(primary, "the header's second copy is older than the first"),
        Less => warn(
            secondary,
            "the header's first copy is older than the second",
        ),
    }
}

fn warn(copy: Copy, text: impl Into<String>) -> Header {
    let mut header = copy.header;
    header.warnings.push(text.into());
    header
}
