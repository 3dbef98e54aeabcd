//! The boot sector and its boot region (exFAT specification, 3).

use diskfs_block::BlockRead;
use diskfs_clusters::resize::check_unmarked;
use diskfs_clusters::{Cluster, Geometry, Root};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{index, le32, len_u64};
use crate::checksum::checksum32;
use crate::error::{Corrupt, Error, ErrorKind, Result, device_failed};

/// The number of bytes that have fields: the size of the smallest sector.
pub(crate) const BOOT_SECTOR_BYTES: usize = 512;
/// The number of sectors that the checksum covers. The sector with the checksum follows them (3.1).
pub(crate) const CHECKED_SECTORS: u32 = 11;
/// The number of sectors of a boot region. The backup region follows the main one.
pub(crate) const REGION_SECTORS: u32 = 12;
/// The value of `FileSystemName` (3.1.2).
pub(crate) const FILE_SYSTEM_NAME: &[u8; 8] = b"EXFAT   ";
/// `BytesPerSectorShift` (3.1.14): 512 to 4096 bytes.
pub(crate) const SECTOR_SHIFTS: std::ops::RangeInclusive<u8> = 9..=12;
/// `SectorsPerClusterShift` and the former together (3.1.15): clusters of 512 bytes to 32 MiB.
pub(crate) const CLUSTER_SHIFTS: std::ops::RangeInclusive<u8> = 9..=25;
/// The value of `BootSignature` (3.1.21).
pub(crate) const SIGNATURE: u16 = 0xaa55;
/// The space for boot code of x86 processors.
pub(crate) const BOOT_CODE_BYTES: usize = 390;
/// The highest `ClusterCount` (3.1.9).
pub(crate) const MAX_CLUSTERS: u32 = u32::MAX - 10;

/// The offset of `VolumeFlags` in the sector. The checksum covers neither this field nor
/// `PercentInUse`.
pub(crate) const VOLUME_FLAGS_OFFSET: u64 = 106;
pub(crate) const PERCENT_IN_USE_OFFSET: u64 = 112;
/// The bits of `VolumeFlags` (3.1.13).
const ACTIVE_FAT: u16 = 1;
pub(crate) const VOLUME_DIRTY: u16 = 2;
const MEDIA_FAILURE: u16 = 4;

/// The main boot sector (3.1).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawBootSector {
    pub(crate) jump_boot: [u8; 3],
    pub(crate) file_system_name: [u8; 8],
    pub(crate) must_be_zero: [u8; 53],
    pub(crate) partition_offset: U64,
    pub(crate) volume_length: U64,
    pub(crate) fat_offset: U32,
    pub(crate) fat_length: U32,
    pub(crate) cluster_heap_offset: U32,
    pub(crate) cluster_count: U32,
    pub(crate) first_cluster_of_root_directory: U32,
    pub(crate) volume_serial_number: U32,
    pub(crate) file_system_revision: U16,
    pub(crate) volume_flags: U16,
    pub(crate) bytes_per_sector_shift: u8,
    pub(crate) sectors_per_cluster_shift: u8,
    pub(crate) number_of_fats: u8,
    pub(crate) drive_select: u8,
    pub(crate) percent_in_use: u8,
    pub(crate) reserved: [u8; 7],
    pub(crate) boot_code: [u8; BOOT_CODE_BYTES],
    pub(crate) boot_signature: U16,
}

const _: () = assert!(size_of::<RawBootSector>() == BOOT_SECTOR_BYTES);

/// A checked boot sector: all its structures are within the device. Offsets and lengths are in
/// bytes.
#[derive(Debug, Clone)]
pub(crate) struct BootSector {
    pub(crate) geometry: Geometry,
    /// The size of the volume.
    pub(crate) size_bytes: u64,
    /// The offset of the table that is in use.
    pub(crate) fat_offset: u64,
    /// The length of each table.
    pub(crate) fat_bytes: u64,
    pub(crate) fats: u8,
    /// The table that is in use, which also selects the bitmap: 0 or 1.
    pub(crate) active: u8,
    pub(crate) serial: u32,
    pub(crate) volume_flags: u16,
    /// True if this is the backup, because the main boot region is damaged.
    pub(crate) is_backup: bool,
}

impl BootSector {
    /// Reads and checks the main boot region; if that is damaged, the backup.
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Self> {
        let main = Self::read_at(device, 0);
        let Err(e) = main else {
            return main;
        };
        if e.kind() != ErrorKind::Corrupt {
            return Err(e);
        }
        if device.size_bytes() >= len_u64(BOOT_SECTOR_BYTES) {
            // Then the backup is out of date.
            check_unmarked(&read_sector(device, 0)?)?;
        }
        // The location of the backup depends on the sector size, which only the damaged region has,
        // so all sizes are tried.
        let sizes = SECTOR_SHIFTS.map(|shift| 1_u32.wrapping_shl(shift.into()));
        let copies = sizes.filter_map(|sector_bytes| {
            let offset = u64::from(sector_bytes.saturating_mul(REGION_SECTORS));
            let copy = Self::read_at(device, offset).ok()?;
            (copy.geometry.sector_bytes == sector_bytes).then_some(copy)
        });
        let copy = copies.last().ok_or(e)?;
        Ok(Self {
            is_backup: true,
            ..copy
        })
    }

    fn read_at(device: &dyn BlockRead, offset: u64) -> Result<Self> {
        let device_bytes = device.size_bytes();
        let needed_bytes = offset.saturating_add(512);
        if needed_bytes > device_bytes {
            return Err(Corrupt::LargerThanDevice {
                needed_bytes,
                device_bytes,
            }
            .into());
        }
        let bytes = read_sector(device, offset)?;
        let boot = Self::parse(&bytes, device_bytes)?;
        boot.check_region(device, offset)?;
        Ok(boot)
    }

    fn parse(bytes: &[u8; BOOT_SECTOR_BYTES], device_bytes: u64) -> Result<Self> {
        let raw: RawBootSector = zerocopy::transmute!(*bytes);
        raw.check_kind()?;
        let sector_bytes = 1_u32.wrapping_shl(raw.bytes_per_sector_shift.into());
        let sectors = |count: U32| u64::from(count.get()).saturating_mul(sector_bytes.into());
        let clusters = raw.cluster_count.get();
        let active = u8::from(raw.volume_flags.get() & ACTIVE_FAT != 0);
        let fat_bytes = sectors(raw.fat_length);
        let before_active = fat_bytes.saturating_mul(active.into());
        let root = Cluster(raw.first_cluster_of_root_directory.get());
        let boot = Self {
            geometry: Geometry {
                sector_bytes,
                cluster_bytes: sector_bytes.wrapping_shl(raw.sectors_per_cluster_shift.into()),
                clusters,
                first_offset: sectors(raw.cluster_heap_offset),
                root: Root::Chain { first: root },
            },
            size_bytes: raw.volume_length.get().saturating_mul(sector_bytes.into()),
            fat_offset: sectors(raw.fat_offset).saturating_add(before_active),
            fat_bytes,
            fats: raw.number_of_fats,
            active,
            serial: raw.volume_serial_number.get(),
            volume_flags: raw.volume_flags.get(),
            is_backup: false,
        };
        let field = |name, value: u32, range, holds| check(name, value.into(), range, holds);
        field(
            "ActiveFat",
            active.into(),
            "less than NumberOfFats",
            active < boot.fats,
        )?;
        let sane = clusters > 0 && clusters <= MAX_CLUSTERS;
        field("ClusterCount", clusters, "1 to 2^32 - 11", sane)?;
        let entries = u64::from(clusters).saturating_add(2);
        let sane = entries.saturating_mul(4) <= fat_bytes;
        field(
            "FatLength",
            raw.fat_length.get(),
            "enough for all clusters",
            sane,
        )?;
        let sane = raw.fat_offset.get() >= REGION_SECTORS.saturating_mul(2);
        field("FatOffset", raw.fat_offset.get(), "at least 24", sane)?;
        let fats_end = fat_bytes
            .saturating_mul(boot.fats.into())
            .saturating_add(sectors(raw.fat_offset));
        let heap = raw.cluster_heap_offset.get();
        let sane = boot.geometry.first_offset >= fats_end;
        field("ClusterHeapOffset", heap, "after the tables", sane)?;
        boot.geometry.check_first(root)?;
        let volume_bytes = raw.volume_length.get().checked_mul(sector_bytes.into());
        let heap_end = boot
            .geometry
            .first_offset
            .saturating_add(boot.geometry.bytes_of(clusters));
        let needed_bytes = volume_bytes.unwrap_or(u64::MAX).max(heap_end);
        if needed_bytes > device_bytes {
            return Err(Corrupt::LargerThanDevice {
                needed_bytes,
                device_bytes,
            }
            .into());
        }
        Ok(boot)
    }

    fn check_region(&self, device: &dyn BlockRead, offset: u64) -> Result<()> {
        let len_bytes = self.geometry.sector_bytes.saturating_mul(REGION_SECTORS);
        let mut bytes = vec![0; index(len_bytes)];
        device.read_at(offset, &mut bytes).map_err(device_failed)?;
        let checked = index(self.geometry.sector_bytes.saturating_mul(CHECKED_SECTORS));
        let found = region_checksum(bytes.get(..checked).unwrap_or_default());
        let stored = le32(&bytes, checked).unwrap_or(0);
        if found == stored {
            return Ok(());
        }
        Err(Corrupt::BootChecksum { found, stored }.into())
    }

    pub(crate) const fn is_dirty(&self) -> bool {
        self.volume_flags & VOLUME_DIRTY != 0
    }

    pub(crate) const fn media_failed(&self) -> bool {
        self.volume_flags & MEDIA_FAILURE != 0
    }
}

impl RawBootSector {
    /// Checks that this is exFAT of a supported version, with valid sector and cluster sizes.
    fn check_kind(&self) -> Result<()> {
        let field = |name, value: u64, range, holds| check(name, value, range, holds);
        let is_named = self.file_system_name == *FILE_SYSTEM_NAME;
        let name = u64::from_be_bytes(self.file_system_name);
        field("FileSystemName", name, "\"EXFAT   \"", is_named)?;
        let signature = self.boot_signature.get();
        let sane = signature == SIGNATURE;
        field("BootSignature", signature.into(), "0xaa55", sane)?;
        let sane = self.must_be_zero.iter().all(|byte| *byte == 0);
        let first = self.must_be_zero.iter().find(|byte| **byte != 0);
        let value = first.copied().unwrap_or(0);
        field("MustBeZero", value.into(), "zeroes", sane)?;
        let [_, major] = self.file_system_revision.get().to_le_bytes();
        if major != 1 {
            let reason = format!("unsupported exFAT revision {major}, expected 1");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let shift = self.bytes_per_sector_shift;
        let sane = SECTOR_SHIFTS.contains(&shift);
        field("BytesPerSectorShift", shift.into(), "9 to 12", sane)?;
        let cluster = self.sectors_per_cluster_shift;
        let sane = cluster <= CLUSTER_SHIFTS.end().saturating_sub(shift);
        field(
            "SectorsPerClusterShift",
            cluster.into(),
            "clusters of at most 32 MiB",
            sane,
        )?;
        let fats = self.number_of_fats;
        let sane = (1..=2).contains(&fats);
        field("NumberOfFats", fats.into(), "1 or 2", sane)
    }
}

fn read_sector(device: &dyn BlockRead, offset: u64) -> Result<[u8; BOOT_SECTOR_BYTES]> {
    let mut bytes = [0; BOOT_SECTOR_BYTES];
    device.read_at(offset, &mut bytes).map_err(device_failed)?;
    Ok(bytes)
}

fn check(field: &'static str, value: u64, range: &'static str, holds: bool) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Corrupt::BootSector {
        field,
        value,
        range,
    }
    .into())
}

/// Returns the checksum of a boot region's sectors (3.4).
pub(crate) fn region_checksum(sectors: &[u8]) -> u32 {
    let changing = [106, 107, 112];
    let counted = sectors
        .iter()
        .enumerate()
        .filter(|(at, _)| !changing.contains(at));
    checksum32(counted.map(|(_, byte)| byte))
}
