//! The log of a mirror of the old style: for each region, whether the legs are in sync. Linux,
//! `drivers/md/dm-log.c`, `log_header_disk`.

use diskfs_block::{BlockRead, Error, Result, read_within};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::map::{Change, Copies};

/// The magic number and version, `MIRROR_MAGIC` and `MIRROR_DISK_VERSION`.
const MAGIC: u32 = 0x4d69_5272;
const VERSION: u32 = 2;

/// The offset of the bits, after the header (`LOG_OFFSET`).
const BITS_AT: usize = 1024;

/// The largest number of regions of a mirror to write: 16 MiB of bits, for 64 TiB in regions of 512
/// KiB.
const MAX_REGIONS: u64 = 1 << 27;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: U32,
    version: U32,
    nr_regions: U64,
}

/// The functions that read and change the state of the copies: a bit is set if they are in sync.
/// The log has no event count.
pub(super) const CHANGE: Change = Change { get, set };

/// Returns the length of the log for a number of regions.
///
/// # Errors
/// `Unsupported` for too many regions.
pub(super) fn len_bytes(regions: u64) -> Result<u64> {
    if regions > MAX_REGIONS {
        let reason =
            format!("has too many regions to be written: {regions}, at most {MAX_REGIONS}");
        return Err(Error::unsupported(reason));
    }
    let header = u64::try_from(BITS_AT).unwrap_or(0);
    Ok(header.saturating_add(regions.div_ceil(8)))
}

/// Checks that the log covers these regions.
///
/// # Errors
/// `Unsupported` if it does not: the kernel then treats all regions as out of sync.
pub(super) fn check(log: &dyn BlockRead, regions: u64) -> Result<()> {
    let bytes = read_within(log, 0, size_of::<Raw>())?.unwrap_or_default();
    let known = header(&bytes).is_some_and(|raw| raw.nr_regions.get() == regions);
    if known {
        return Ok(());
    }
    let reason = "is a mirror whose log does not cover its regions; writing to it is not supported";
    Err(Error::unsupported(reason).with_hint("let the guest's kernel synchronise its legs first"))
}

fn header(bytes: &[u8]) -> Option<&Raw> {
    let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
    (raw.magic.get() == MAGIC && raw.version.get() == VERSION).then_some(raw)
}

fn get(bytes: &[u8]) -> Option<(u64, Copies)> {
    let regions = usize::try_from(header(bytes)?.nr_regions.get()).ok()?;
    let (whole, rest) = (regions / 8, regions % 8);
    let bits = bytes.get(BITS_AT..)?;
    let all = bits.get(..whole)?.iter().all(|byte| *byte == 0xff);
    let last = match rest {
        0 => true,
        _ => bits.get(whole)? & low_bits(rest) == low_bits(rest),
    };
    let copies = if all && last {
        Copies::Alike
    } else {
        Copies::PerhapsNot
    };
    Some((0, copies))
}

fn set(bytes: &mut [u8], _events: u64, copies: Copies) -> Option<()> {
    let regions = usize::try_from(header(bytes)?.nr_regions.get()).ok()?;
    let (whole, rest) = (regions / 8, regions % 8);
    let value = match copies {
        Copies::Alike => 0xff,
        Copies::PerhapsNot => 0,
    };
    let bits = bytes.get_mut(BITS_AT..)?;
    if rest > 0 {
        *bits.get_mut(whole)? = value & low_bits(rest);
    }
    bits.get_mut(..whole)?.fill(value);
    Some(())
}

/// Returns a byte with its lowest bits set, one to seven of them.
fn low_bits(count: usize) -> u8 {
    let shift = u32::try_from(count).unwrap_or(8);
    !(0xff_u8.checked_shl(shift).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(regions: u64, bits: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; BITS_AT];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..16].copy_from_slice(&regions.to_le_bytes());
        bytes.extend_from_slice(bits);
        bytes
    }

    #[test]
    fn all_bits_of_regions_count_and_no_others() {
        for (regions, bits, copies) in [
            (11, [0xff, 0x07], Copies::Alike),
            (11, [0xff, 0xff], Copies::Alike),
            (11, [0xff, 0x03], Copies::PerhapsNot),
            (11, [0xfe, 0x07], Copies::PerhapsNot),
            (16, [0xff, 0xff], Copies::Alike),
            (16, [0xff, 0x7f], Copies::PerhapsNot),
        ] {
            assert_eq!(get(&log(regions, &bits)), Some((0, copies)), "{bits:x?}");
        }
        let mut bytes = log(11, &[0xff, 0x07]);
        set(&mut bytes, 7, Copies::PerhapsNot).unwrap();
        assert_eq!(bytes, log(11, &[0, 0]));
        set(&mut bytes, 7, Copies::Alike).unwrap();
        assert_eq!(bytes, log(11, &[0xff, 0x07]));
    }

    #[test]
    fn what_is_no_log_says_nothing() {
        let short = log(u64::MAX, &[0xff]);
        assert_eq!(get(&short), None);
        assert_eq!(set(&mut short.clone(), 0, Copies::Alike), None);
        assert_eq!(get(&[0; 2048]), None);
        let mut old = log(8, &[0xff]);
        old[4] = 1;
        assert_eq!(get(&old), None);
        assert!(len_bytes(u64::MAX).is_err());
        assert_eq!(len_bytes(9).unwrap(), 1026);
    }
}
