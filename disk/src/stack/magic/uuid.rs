//! The text forms of UUIDs and serial numbers.

use std::fmt::Write as _;

/// Returns a UUID in its usual form; `None` for zeroes.
pub(super) fn text(bytes: [u8; 16]) -> Option<String> {
    (bytes != [0; 16]).then(|| grouped(&hex(&bytes), &[8, 4, 4, 4, 12]))
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // Writing to a String does not fail.
        hex
    })
}

/// Splits `text` into groups of these `lengths`, with dashes between them.
pub(super) fn grouped(text: &str, lengths: &[usize]) -> String {
    let mut rest = text;
    let mut parts = Vec::with_capacity(lengths.len());
    for len in lengths {
        let (part, behind) = rest.split_at_checked(*len).unwrap_or((rest, ""));
        parts.push(part);
        rest = behind;
    }
    parts.join("-")
}

/// Returns a serial number as DOS prints it: `1A2B-3C4D`; `None` for zero.
pub(super) fn dos_serial(serial: u32) -> Option<String> {
    (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff))
}
