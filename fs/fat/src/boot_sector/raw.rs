//! The boot sector's layout in bytes (fatgen103, "Boot Sector and BPB").

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The number of bytes to parse: the size of the smallest sector.
pub(crate) const BOOT_SECTOR_BYTES: usize = 512;

/// The whole boot sector. Its field `rest` depends on the type.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawBootSector {
    pub(crate) jump: [u8; 3],
    pub(crate) oem_name: [u8; 8],
    pub(crate) bytes_per_sector: U16,
    pub(crate) sectors_per_cluster: u8,
    pub(crate) reserved_sectors: U16,
    pub(crate) fats: u8,
    pub(crate) root_entries: U16,
    pub(crate) total_sectors_16: U16,
    pub(crate) media: u8,
    pub(crate) fat_sectors_16: U16,
    pub(crate) sectors_per_track: U16,
    pub(crate) heads: U16,
    pub(crate) hidden_sectors: U32,
    pub(crate) total_sectors_32: U32,
    /// The part that depends on the type.
    pub(crate) rest: [u8; RawBootSector::REST_BYTES],
    /// The [`SIGNATURE`]. It is not checked, because some formatters do not write it.
    pub(crate) signature: [u8; 2],
}

/// The fields from byte 36 on in FAT12 and FAT16, which have a fixed root directory.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawExtended {
    pub(crate) drive: u8,
    pub(crate) state: u8,
    pub(crate) signature: u8,
    pub(crate) volume_id: U32,
    pub(crate) label: [u8; 11],
    pub(crate) type_name: [u8; 8],
}

/// The fields from byte 36 on in FAT32.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawFat32 {
    pub(crate) fat_sectors_32: U32,
    pub(crate) flags: U16,
    pub(crate) version: U16,
    pub(crate) root_cluster: U32,
    pub(crate) fs_info_sector: U16,
    pub(crate) backup_sector: U16,
    pub(crate) reserved: [u8; 12],
    pub(crate) extended: RawExtended,
}

const _: () = assert!(size_of::<RawBootSector>() == BOOT_SECTOR_BYTES);

impl RawBootSector {
    /// The number of bytes between the fields common to all types and the signature.
    pub(crate) const REST_BYTES: usize = 474;
}

/// The last two bytes of the boot sector.
pub(crate) const SIGNATURE: [u8; 2] = [0x55, 0xaa];
