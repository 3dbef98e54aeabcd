//! Creation of filesystems (fatgen103, "FAT Volume Initialization"; where it leaves a choice, as
//! `mkfs.vfat` does).

mod layout;

use diskfs_block::{BlockWrite, wipe_ends};
use diskfs_vfs::Timestamp;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::boot_sector::{FatKind, RawBootSector, RawExtended, RawFat32, SIGNATURE};
use crate::bytes::{low32, put};
use crate::directory_entry::{ShortEntry, VOLUME_ID};
use crate::error::{Error, ErrorKind, Result, device_failed};
use crate::fs_info;
use layout::{BACKUP_SECTOR, FS_INFO_SECTOR, Layout};

/// The cluster of the root directory in FAT32.
const ROOT_CLUSTER: u32 = 2;
/// The media byte of a hard disk, in the boot sector and the first entry of the table.
const MEDIA: u8 = 0xf8;
/// The label in the boot sector of a filesystem without a label.
const NO_LABEL: [u8; 11] = *b"NO NAME    ";
/// The characters that a label must not have (fatgen103, "`DIR_Name`").
const NOT_IN_LABELS: &str = "\"*+,./:;<=>?[\\]|";

/// The options for a new filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// The type; `None` chooses it by the size of the device.
    pub kind: Option<FatKind>,
    /// The label, at most 11 characters; converted to upper case. Empty for no label.
    pub label: String,
    /// The volume serial number.
    pub volume_id: u32,
    /// The cluster size in bytes; `None` chooses it by the size of the device.
    pub cluster_bytes: Option<u32>,
    /// The sector size in bytes: 512 to 4096, that of the disk.
    pub sector_bytes: u32,
    /// The number of sectors of the disk before the volume.
    pub hidden_sectors: u32,
    /// The time of the label's directory entry; `None` for the present time.
    pub time: Option<Timestamp>,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            kind: None,
            label: String::new(),
            volume_id: 0,
            cluster_bytes: None,
            sector_bytes: 512,
            hidden_sectors: 0,
            time: None,
        }
    }
}

/// Creates an empty filesystem on the whole device. The old contents are lost, and the filesystem
/// is durable when the function returns. The boot sector is written last: after a crash there is
/// either no filesystem or a complete one.
///
/// # Errors
/// `Invalid`, before anything is written, for an invalid label, for sizes that FAT does not
/// support, and for a device that is too small or too large; `Io` if the device fails.
pub fn format(device: &dyn BlockWrite, options: &FormatOptions) -> Result<()> {
    let label = label_bytes(&options.label)?;
    let layout = Layout::choose(device.size_bytes(), options)?;
    let boot = boot_sector(&layout, options, label.unwrap_or(NO_LABEL));
    let write = |sector: u64, bytes: &[u8]| {
        let offset = layout.offset(sector);
        device.write_at(offset, bytes).map_err(device_failed)
    };
    let structures = layout.offset(layout.first_free_sector());
    wipe_ends(device, structures).map_err(device_failed)?;
    for table in layout.tables() {
        write(table, &first_entries(layout.kind))?;
    }
    if let Some(label) = label {
        let entry = ShortEntry::new(
            label,
            VOLUME_ID,
            options.time.unwrap_or_else(Timestamp::now),
        );
        write(layout.root_sector(), &entry.to_bytes())?;
    }
    if layout.kind == FatKind::Fat32 {
        let info = fs_info::encode(layout.clusters.saturating_sub(1), ROOT_CLUSTER);
        write(FS_INFO_SECTOR, &info)?;
        write(BACKUP_SECTOR.saturating_add(FS_INFO_SECTOR), &info)?;
        write(BACKUP_SECTOR, boot.as_bytes())?;
    }
    device.flush().map_err(device_failed)?;
    write(0, boot.as_bytes())?;
    device.flush().map_err(device_failed)
}

/// Converts the label to the bytes of a directory entry; `None` for an empty label.
fn label_bytes(label: &str) -> Result<Option<[u8; 11]>> {
    if label.trim().is_empty() {
        return Ok(None);
    }
    let mut bytes = [b' '; 11];
    if label.chars().count() > bytes.len() {
        let reason = "invalid label: FAT allows at most 11 characters";
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    let allowed = |c: char| (c.is_ascii_graphic() || c == ' ') && !NOT_IN_LABELS.contains(c);
    if label.starts_with(' ') || !label.chars().all(allowed) {
        let reason = format!("invalid label: FAT allows printable ASCII except {NOT_IN_LABELS}");
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    put(&mut bytes, 0, label.to_ascii_uppercase().as_bytes());
    Ok(Some(bytes))
}

/// Returns the first entries of the table: the media byte, a clean state and, on FAT32, the root
/// directory.
fn first_entries(kind: FatKind) -> Vec<u8> {
    match kind {
        FatKind::Fat12 => vec![MEDIA, 0xff, 0xff],
        FatKind::Fat16 => vec![MEDIA, 0xff, 0xff, 0xff],
        FatKind::Fat32 => [0x0fff_ff00 | u32::from(MEDIA), 0x0fff_ffff, 0x0fff_ffff]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect(),
    }
}

fn boot_sector(layout: &Layout, options: &FormatOptions, label: [u8; 11]) -> RawBootSector {
    let is_32 = layout.kind == FatKind::Fat32;
    // Values that do not fit, and all values on FAT32, are in the field of 32 bits.
    let small = |value: u64| u16::try_from(value).ok().filter(|_| !is_32).unwrap_or(0);
    let half = |value: u64| U16::new(u16::try_from(value).unwrap_or(u16::MAX));
    let total_16 = small(layout.total);
    let total_32 = if total_16 == 0 {
        low32(layout.total)
    } else {
        0
    };
    RawBootSector {
        jump: if is_32 {
            *b"\xeb\x58\x90"
        } else {
            *b"\xeb\x3c\x90"
        },
        oem_name: *b"MSWIN4.1", // What fatgen103 recommends: some readers look for it.
        bytes_per_sector: half(layout.sector_bytes),
        sectors_per_cluster: u8::try_from(layout.cluster_sectors).unwrap_or(0),
        reserved_sectors: half(layout.reserved),
        fats: u8::try_from(layout.tables().count()).unwrap_or(0),
        root_entries: half(layout.root_entries()),
        total_sectors_16: U16::new(total_16),
        media: MEDIA,
        fat_sectors_16: U16::new(small(layout.fat_sectors)),
        // The usual CHS geometry; nothing uses it since LBA.
        sectors_per_track: U16::new(63),
        heads: U16::new(255),
        hidden_sectors: U32::new(options.hidden_sectors),
        total_sectors_32: U32::new(total_32),
        rest: rest(layout, options.volume_id, label),
        signature: SIGNATURE,
    }
}

/// Returns the type-specific part of the boot sector. Its boot code only asks for the next device.
fn rest(layout: &Layout, volume_id: u32, label: [u8; 11]) -> [u8; RawBootSector::REST_BYTES] {
    /// The boot code: asks the BIOS for the next device (int 0x18), in a loop.
    const NO_BOOT: [u8; 4] = *b"\xcd\x18\xeb\xfc";
    let mut type_name = [b' '; 8];
    put(&mut type_name, 0, layout.kind.name().as_bytes());
    let extended = RawExtended {
        drive: 0x80,
        state: 0,
        signature: 0x29,
        volume_id: U32::new(volume_id),
        label,
        type_name,
    };
    let half = |value: u64| U16::new(u16::try_from(value).unwrap_or(0));
    let fat32 = RawFat32 {
        fat_sectors_32: U32::new(low32(layout.fat_sectors)),
        flags: U16::ZERO,
        version: U16::ZERO,
        root_cluster: U32::new(ROOT_CLUSTER),
        fs_info_sector: half(FS_INFO_SECTOR),
        backup_sector: half(BACKUP_SECTOR),
        reserved: [0; 12],
        extended,
    };
    let fields = match layout.kind {
        FatKind::Fat32 => fat32.as_bytes(),
        _ => extended.as_bytes(),
    };
    let mut rest = [0; RawBootSector::REST_BYTES];
    put(&mut rest, 0, fields);
    put(&mut rest, fields.len(), &NO_BOOT);
    rest
}
