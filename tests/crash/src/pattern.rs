//! File contents that identify the operation that wrote them, and their offset.

/// The size of a cell of the pattern: six digits for the operation, nine for the cell's number in
/// the file.
const CELL_BYTES: u64 = 16;
const CELL_LEN: usize = 16;

/// Returns the bytes that an operation writes at `offset`.
pub fn pattern(operation: usize, offset: u64, len: usize) -> Vec<u8> {
    let skip = usize::try_from(offset % CELL_BYTES).unwrap_or(0);
    let mut bytes = Vec::with_capacity(skip + len + 16);
    let mut cell = offset / CELL_BYTES;
    while bytes.len() < skip + len {
        bytes
            .extend_from_slice(format!("{operation:06x}{:09x}\n", cell & 0xf_ffff_ffff).as_bytes());
        cell += 1;
    }
    bytes.drain(..skip);
    bytes.truncate(len);
    bytes
}

/// Describes the origin of bytes, as far as they contain it.
pub fn origin(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) {
        return "zeroes".to_owned();
    }
    for cell in bytes.windows(CELL_LEN) {
        if !cell.ends_with(b"\n") {
            continue;
        }
        let digits = |range| {
            let text = std::str::from_utf8(cell.get(range)?).ok()?;
            u64::from_str_radix(text, 16).ok()
        };
        if let (Some(operation), Some(cell)) = (digits(0..6), digits(6..15)) {
            return format!("operation {operation}, byte {:#x}", cell * CELL_BYTES);
        }
    }
    let shown = &bytes[..bytes.len().min(32)];
    format!("unknown: {}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_depends_on_the_place_alone() {
        let whole = pattern(0x2a, 0, 100);
        assert_eq!(pattern(0x2a, 7, 50), whole[7..57]);
        assert_eq!(&whole[16..32], b"00002a000000001\n");
        assert_eq!(origin(&whole[20..90]), "operation 42, byte 0x20");
        assert_eq!(origin(&[0; 20]), "zeroes");
    }
}
