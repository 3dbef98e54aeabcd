//! The cylinder, head and sector of an LBA, for the fields that nothing but old BIOSes reads.

/// The geometry that BIOSes invent for every disk of more than 504 MiB, and that tools use for
/// image files.
const HEADS: u64 = 255;
const SECTORS_PER_TRACK: u64 = 63;

/// The largest cylinder; a sector past it has the largest value in all three fields.
const MAX_CYLINDER: u64 = 1023;

/// Returns the three bytes: head, sector with the upper bits of the cylinder, cylinder.
pub(crate) fn of(lba: u64) -> [u8; 3] {
    let track = lba.checked_div(SECTORS_PER_TRACK).unwrap_or(0);
    let sector = lba.checked_rem(SECTORS_PER_TRACK).unwrap_or(0);
    let cylinder = track.checked_div(HEADS).unwrap_or(0);
    let head = track.checked_rem(HEADS).unwrap_or(0);
    let (cylinder, head, sector) = if cylinder > MAX_CYLINDER {
        (MAX_CYLINDER, HEADS.saturating_sub(1), SECTORS_PER_TRACK)
    } else {
        (cylinder, head, sector.saturating_add(1))
    };
    let upper = (cylinder >> 2) & 0xc0;
    [head, sector | upper, cylinder & 0xff].map(|byte| u8::try_from(byte).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_sfdisk() {
        assert_eq!(of(0), [0, 1, 0]);
        assert_eq!(of(2048), [0x20, 0x21, 0]);
        assert_eq!(of(22527), [0x66, 0x25, 1]);
        assert_eq!(of(1024 * 255 * 63 - 1), [254, 0xff, 0xff]);
        assert_eq!(of(1024 * 255 * 63), [254, 0xff, 0xff]);
        assert_eq!(of(u64::MAX), [254, 0xff, 0xff]);
    }
}
