//! Detection of a filesystem's boot sector, as opposed to a partition table: both end in 55 AA.
//!
//! Sources: Microsoft's FAT specification, section 3 (boot sector and BPB), and its exFAT
//! specification, section 3.1.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The start of a boot sector with a BIOS parameter block.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBootSector {
    jump: [u8; 3],
    oem_name: [u8; 8],
    bytes_per_sector: U16,
    sectors_per_cluster: u8,
    reserved_sectors: U16,
    fats: u8,
    root_entries: U16,
    total_sectors_16: U16,
    media: u8,
}

/// Returns true if a disk's first sector is that of a FAT, exFAT or NTFS on the whole disk.
///
/// A boot loader in an MBR may begin with the same jump over the BPB, but leaves the BPB empty.
pub(crate) fn is_filesystem(sector: &[u8]) -> bool {
    let Ok((raw, _)) = RawBootSector::ref_from_prefix(sector) else {
        return false;
    };
    let jumps = matches!(raw.jump, [0xeb, _, 0x90] | [0xe9, _, _]);
    jumps && (&raw.oem_name == b"NTFS    " || &raw.oem_name == b"EXFAT   " || is_fat(raw))
}

/// Checks the values that the specification requires of every FAT.
fn is_fat(raw: &RawBootSector) -> bool {
    matches!(raw.bytes_per_sector.get(), 512 | 1024 | 2048 | 4096)
        && raw.sectors_per_cluster.is_power_of_two()
        && raw.reserved_sectors.get() != 0
        && raw.fats != 0
        && (raw.media == 0xf0 || raw.media >= 0xf8)
}
