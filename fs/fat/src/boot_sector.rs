//! The boot sector with its BIOS parameter block (Microsoft, "FAT: General Overview of On-Disk
//! Format", 1.03, "Boot Sector and BPB").

mod raw;

use diskfs_block::BlockRead;
use diskfs_clusters::resize::check_unmarked;
use diskfs_clusters::{Cluster, ENTRY_BYTES, Geometry, Root};
use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U32};

use crate::bytes::low32;
use crate::error::{Corrupt, Error, ErrorKind, Result, device_failed};

pub(crate) use raw::{BOOT_SECTOR_BYTES, RawBootSector, RawExtended, RawFat32, SIGNATURE};

/// The number of clusters below which a filesystem is FAT12 (fatgen103, "FAT Type Determination").
pub(crate) const FAT12_CLUSTERS: u32 = 4085;
/// The number of clusters below which a filesystem is FAT16.
pub(crate) const FAT16_CLUSTERS: u32 = 65_525;
/// The highest cluster number of FAT32. Higher values in the table have special meanings.
pub(crate) const FAT32_LAST_CLUSTER: u32 = 0x0fff_fff6;

/// The maximum number of copies of the table. Every formatter makes one or two.
const MAX_FATS: u8 = 4;

/// The byte whose lowest bit is set while the filesystem is mounted for writing: byte 65 on FAT32,
/// byte 37 on FAT12 and FAT16 (Linux, `FAT_STATE_DIRTY`).
const STATE_OFFSET_32: u64 = 65;
const STATE_OFFSET: u64 = 37;
pub(crate) const STATE_DIRTY: u8 = 1;

/// The FAT type: the width of the table's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FatKind {
    /// 12 bits: up to 4,084 clusters.
    Fat12,
    /// 16 bits: up to 65,524 clusters.
    Fat16,
    /// 28 bits, stored in 32.
    Fat32,
}

impl FatKind {
    /// Returns the type's name as the boot sector spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fat12 => "FAT12",
            Self::Fat16 => "FAT16",
            Self::Fat32 => "FAT32",
        }
    }
}

/// A checked boot sector: all its structures are within the device. Offsets and lengths are in
/// bytes.
#[derive(Debug, Clone)]
pub(crate) struct BootSector {
    pub(crate) kind: FatKind,
    pub(crate) geometry: Geometry,
    /// The size of the filesystem.
    pub(crate) size_bytes: u64,
    /// The offset of the first copy of the table.
    pub(crate) fat_offset: u64,
    /// The length of each copy of the table.
    pub(crate) fat_bytes: u64,
    pub(crate) fats: u8,
    /// The copy of the table that is in use, if the copies are not kept in sync.
    pub(crate) active_fat: Option<u8>,
    /// The offset of the `FSInfo` sector.
    pub(crate) fs_info_offset: Option<u64>,
    /// The offset of the copy of the boot sector.
    pub(crate) backup_offset: Option<u64>,
    /// The offset of the byte with [`STATE_DIRTY`].
    pub(crate) state_offset: u64,
    pub(crate) state: u8,
    pub(crate) volume_id: u32,
    pub(crate) label: [u8; 11],
}

impl BootSector {
    /// Reads and checks the boot sector.
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Self> {
        let mut bytes = [0; BOOT_SECTOR_BYTES];
        if device.size_bytes() < 512 {
            return Err(Corrupt::LargerThanDevice {
                needed_bytes: 512,
                device_bytes: device.size_bytes(),
            }
            .into());
        }
        device.read_at(0, &mut bytes).map_err(device_failed)?;
        check_unmarked(&bytes)?;
        Self::parse(&bytes, device.size_bytes())
    }

    fn parse(bytes: &[u8; BOOT_SECTOR_BYTES], device_bytes: u64) -> Result<Self> {
        let raw: RawBootSector = zerocopy::transmute!(*bytes);
        let fat32 = RawFat32::read_from_prefix(&raw.rest)
            .map_err(|_| too_short())?
            .0;
        let extended = RawExtended::read_from_prefix(&raw.rest)
            .map_err(|_| too_short())?
            .0;
        let layout = Layout::of(&raw, &fat32)?;
        layout.check_device(device_bytes)?;
        let kind = layout.kind()?;
        let is_32 = kind == FatKind::Fat32;
        let extended = if is_32 { fat32.extended } else { extended };
        let flags = fat32.flags.get();
        let boot = Self {
            kind,
            geometry: Geometry {
                sector_bytes: layout.sector_bytes,
                cluster_bytes: layout.cluster_bytes,
                clusters: layout.clusters(),
                first_offset: layout.sectors(layout.data_sector()),
                root: layout.root(&fat32),
            },
            size_bytes: layout.sectors(layout.total),
            fat_offset: layout.sectors(layout.reserved),
            fat_bytes: layout.sectors(layout.fat_sectors),
            fats: raw.fats,
            active_fat: (is_32 && flags & 0x80 != 0).then(|| flags.to_le_bytes()[0] & 0x0f),
            fs_info_offset: is_32
                .then(|| layout.reserved_sector(fat32.fs_info_sector))
                .flatten(),
            backup_offset: is_32
                .then(|| layout.reserved_sector(fat32.backup_sector))
                .flatten(),
            state_offset: if is_32 { STATE_OFFSET_32 } else { STATE_OFFSET },
            state: extended.state,
            volume_id: extended.volume_id.get(),
            label: extended.label,
        };
        boot.check_active()?;
        if let Root::Chain { first } = boot.geometry.root {
            boot.geometry.check_first(first)?;
        }
        if is_32 && fat32.version.get() != 0 {
            let reason = format!(
                "unsupported FAT32 version {:#x}, expected 0",
                fat32.version.get()
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        Ok(boot)
    }

    fn check_active(&self) -> Result<()> {
        match self.active_fat {
            Some(active) if active >= self.fats => Err(Corrupt::BootSector {
                field: "active table",
                value: active.into(),
                range: "less than the number of tables",
            }
            .into()),
            _ => Ok(()),
        }
    }
}

fn too_short() -> Error {
    Error::new(ErrorKind::Corrupt, "invalid boot sector: it is too short")
}

/// The layout of the filesystem, in sectors.
#[derive(Debug, Clone, Copy)]
struct Layout {
    sector_bytes: u32,
    cluster_bytes: u32,
    cluster_sectors: u32,
    reserved: u64,
    fats: u64,
    fat_sectors: u64,
    /// True if the number of sectors per table is in FAT32's field of 32 bits.
    is_fat32: bool,
    root_entries: u32,
    root_sectors: u64,
    total: u64,
}

impl Layout {
    fn of(raw: &RawBootSector, fat32: &RawFat32) -> Result<Self> {
        let field = |field, value: u64, range, holds: bool| {
            if holds {
                return Ok(());
            }
            Err(Corrupt::BootSector {
                field,
                value,
                range,
            })
        };
        let sector_bytes = u32::from(raw.bytes_per_sector.get());
        let sane = sector_bytes.is_power_of_two() && (512..=4096).contains(&sector_bytes);
        field(
            "bytes per sector",
            sector_bytes.into(),
            "512, 1024, 2048 or 4096",
            sane,
        )?;
        let cluster_sectors = u32::from(raw.sectors_per_cluster);
        let sane = cluster_sectors.is_power_of_two();
        field(
            "sectors per cluster",
            cluster_sectors.into(),
            "a power of two",
            sane,
        )?;
        let reserved = u64::from(raw.reserved_sectors.get());
        field("reserved sectors", reserved, "at least 1", reserved > 0)?;
        let fats = u64::from(raw.fats);
        let sane = (1..=MAX_FATS).contains(&raw.fats);
        field("number of tables", fats, "1 to 4", sane)?;
        let small = |small: U16, large: U32| match small.get() {
            0 => u64::from(large.get()),
            small => u64::from(small),
        };
        let fat_sectors = small(raw.fat_sectors_16, fat32.fat_sectors_32);
        field(
            "sectors per table",
            fat_sectors,
            "at least 1",
            fat_sectors > 0,
        )?;
        let total = small(raw.total_sectors_16, raw.total_sectors_32);
        field("total sectors", total, "at least 1", total > 0)?;
        let is_fat32 = raw.fat_sectors_16.get() == 0;
        let root_entries = if is_fat32 { 0 } else { raw.root_entries.get() };
        let root_bytes = u64::from(root_entries).saturating_mul(ENTRY_BYTES);
        field(
            "root entries",
            0,
            "at least 1",
            is_fat32 || root_entries > 0,
        )?;
        Ok(Self {
            sector_bytes,
            cluster_bytes: sector_bytes.saturating_mul(cluster_sectors),
            cluster_sectors,
            reserved,
            fats,
            fat_sectors,
            is_fat32,
            root_entries: root_entries.into(),
            root_sectors: root_bytes.div_ceil(sector_bytes.into()),
            total,
        })
    }

    /// Converts a number of sectors to bytes. At most 2^32 sectors of 4096 bytes, so nothing
    /// saturates.
    fn sectors(&self, count: u64) -> u64 {
        count.saturating_mul(self.sector_bytes.into())
    }

    fn root_sector(&self) -> u64 {
        let tables = self.fats.saturating_mul(self.fat_sectors);
        self.reserved.saturating_add(tables)
    }

    fn data_sector(&self) -> u64 {
        self.root_sector().saturating_add(self.root_sectors)
    }

    fn check_device(&self, device_bytes: u64) -> Result<()> {
        let needed_bytes = self.sectors(self.total);
        if needed_bytes > device_bytes {
            return Err(Corrupt::LargerThanDevice {
                needed_bytes,
                device_bytes,
            }
            .into());
        }
        if self.data_sector() >= self.total || self.clusters() == 0 {
            return Err(Corrupt::NoClusters.into());
        }
        Ok(())
    }

    /// Returns the number of clusters that fit between the tables and the end.
    fn data_clusters(&self) -> u32 {
        let sectors = self.total.saturating_sub(self.data_sector());
        low32(
            sectors
                .checked_div(self.cluster_sectors.into())
                .unwrap_or(0),
        )
    }

    /// Returns the number of clusters, limited by the number of entries in the table.
    fn clusters(&self) -> u32 {
        let bits: u64 = match self.kind() {
            Ok(FatKind::Fat12) => 12,
            Ok(FatKind::Fat16) => 16,
            _ => 32,
        };
        let entries = self.sectors(self.fat_sectors).saturating_mul(8);
        let entries = entries.checked_div(bits).unwrap_or(0);
        let in_table = low32(entries.saturating_sub(2));
        let highest = FAT32_LAST_CLUSTER.saturating_sub(1);
        self.data_clusters().min(in_table).min(highest)
    }

    /// Returns the type, which the number of clusters determines. But without a 16-bit table size,
    /// the type can only be FAT32; formatters make small filesystems of that kind if asked to.
    fn kind(&self) -> Result<FatKind> {
        let clusters = self.data_clusters();
        match () {
            () if self.is_fat32 => Ok(FatKind::Fat32),
            () if clusters < FAT12_CLUSTERS => Ok(FatKind::Fat12),
            () if clusters < FAT16_CLUSTERS => Ok(FatKind::Fat16),
            () => Err(Corrupt::BootSector {
                field: "number of clusters",
                value: clusters.into(),
                range: "at most 65524 with a fixed root directory",
            }
            .into()),
        }
    }

    fn root(&self, fat32: &RawFat32) -> Root {
        if self.is_fat32 {
            return Root::Chain {
                first: Cluster(fat32.root_cluster.get()),
            };
        }
        Root::Fixed {
            offset: self.sectors(self.root_sector()),
            entries: self.root_entries,
        }
    }

    /// Returns the offset of a sector between the boot sector and the tables.
    fn reserved_sector(&self, number: U16) -> Option<u64> {
        let sector = u64::from(number.get());
        (1..self.reserved)
            .contains(&sector)
            .then(|| self.sectors(sector))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the boot sector of a FAT16 with 20,000 clusters of 2 KiB.
    fn sector() -> [u8; 512] {
        let mut bytes = [0; 512];
        bytes[11..13].copy_from_slice(&512_u16.to_le_bytes());
        bytes[13] = 4;
        bytes[14..16].copy_from_slice(&4_u16.to_le_bytes());
        bytes[16] = 2;
        bytes[17..19].copy_from_slice(&512_u16.to_le_bytes());
        bytes[22..24].copy_from_slice(&79_u16.to_le_bytes());
        bytes[32..36].copy_from_slice(&(4 + 158 + 32 + 80_000_u32).to_le_bytes());
        bytes
    }

    const DEVICE: u64 = (4 + 158 + 32 + 80_000) * 512;

    #[test]
    fn the_number_of_clusters_decides_the_type() {
        let mut bytes = sector();
        let boot = BootSector::parse(&bytes, DEVICE).unwrap();
        let geometry = &boot.geometry;
        assert_eq!((boot.kind, geometry.clusters), (FatKind::Fat16, 20_000));
        assert_eq!(geometry.first_offset, (4 + 158 + 32) * 512);
        let fat12 = 4 + 158 + 32 + 4084_u32 * 4;
        bytes[32..36].copy_from_slice(&fat12.to_le_bytes());
        assert_eq!(
            BootSector::parse(&bytes, DEVICE).unwrap().kind,
            FatKind::Fat12
        );
        bytes[32..36].copy_from_slice(&(fat12 + 4).to_le_bytes());
        assert_eq!(
            BootSector::parse(&bytes, DEVICE).unwrap().kind,
            FatKind::Fat16
        );
    }

    #[test]
    fn nonsense_is_corrupt() {
        let broken: [(usize, &[u8]); 9] = [
            (11, b"\0\0"),
            (11, b"\x01\x02"),
            (11, b"\0\x20"),
            (13, b"\0"),
            (13, b"\x03"),
            (14, b"\0\0"),
            (16, b"\0"),
            (17, b"\0\0"),
            (32, b"\xff\xff\xff\xff"),
        ];
        for (at, with) in broken {
            let mut bytes = sector();
            bytes[at..at + with.len()].copy_from_slice(with);
            let e = BootSector::parse(&bytes, DEVICE).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{at}: {e}");
        }
        assert!(BootSector::parse(&sector(), DEVICE - 1).is_err());
    }
}
