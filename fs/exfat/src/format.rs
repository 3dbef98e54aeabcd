//! Creation of filesystems (exFAT specification, 3 and 7; where it leaves a choice, as `mkfs.exfat`
//! does).

mod layout;

use diskfs_block::{BlockWrite, wipe_ends};
use diskfs_clusters::Cluster;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::boot_sector::{
    BOOT_CODE_BYTES, CHECKED_SECTORS, FILE_SYSTEM_NAME, REGION_SECTORS, RawBootSector, SIGNATURE,
    region_checksum,
};
use crate::bytes::{index, len_u64, low32};
use crate::checksum::checksum32;
use crate::directory_entry::{
    ALLOCATION_BITMAP, BitmapEntry, LabelEntry, MAX_LABEL_UNITS, UPCASE_TABLE, UpcaseEntry,
    VOLUME_LABEL,
};
use crate::error::{Error, ErrorKind, Result, device_failed};
use crate::fat::END;
use crate::upcase_table::RECOMMENDED;
use layout::Layout;

/// `FatEntry[0]`: the media byte of a hard disk, then ones (4.1.1).
const FIRST_ENTRY: u32 = 0xffff_fff8;
/// `ExtendedBootSignature`: the end of each of the eight sectors after the first (3.2.2).
const EXTENDED_SIGNATURE: u32 = 0xaa55_0000;
/// The instruction that halts an x86 processor (3.1.20).
const HALT: u8 = 0xf4;

/// The options for a new filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// The label, at most 11 UTF-16 units. Empty for no label.
    pub label: String,
    /// The volume serial number.
    pub volume_id: u32,
    /// The cluster size in bytes; `None` chooses it by the size of the device.
    pub cluster_bytes: Option<u32>,
    /// The sector size in bytes: 512 to 4096, that of the disk.
    pub sector_bytes: u32,
    /// The number of sectors of the disk before the volume.
    pub hidden_sectors: u64,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            label: String::new(),
            volume_id: 0,
            cluster_bytes: None,
            sector_bytes: 512,
            hidden_sectors: 0,
        }
    }
}

/// Creates an empty filesystem on the whole device. The old contents are lost, and the filesystem
/// is durable when the function returns. The boot sector is written last: after a crash there is
/// either no filesystem or a complete one.
///
/// # Errors
/// `Invalid`, before anything is written, for an invalid label, for sizes that exFAT does not
/// support, and for a device that is too small or too large; `Io` if the device fails.
pub fn format(device: &dyn BlockWrite, options: &FormatOptions) -> Result<()> {
    let label = label_entry(&options.label)?;
    let layout = Layout::choose(device.size_bytes(), options)?;
    let [bitmap, upcase, root, end] = layout.firsts();
    let write = |offset: u64, bytes: &[u8]| device.write_at(offset, bytes).map_err(device_failed);
    wipe_ends(device, layout.offset_of(end)).map_err(device_failed)?;
    write(layout.fat_offset, &first_entries(&layout))?;
    write(layout.offset_of(bitmap), &used_bits(layout.used_clusters()))?;
    write(layout.offset_of(upcase), RECOMMENDED)?;
    write(layout.offset_of(root), &root_entries(&layout, label))?;
    let region = boot_region(&layout, options);
    write(len_u64(region.len()), &region)?;
    let (first, rest) = region.split_at(index(layout.sector_bytes).min(region.len()));
    write(len_u64(first.len()), rest)?;
    device.flush().map_err(device_failed)?;
    write(0, first)?;
    device.flush().map_err(device_failed)
}

/// Returns the entry of the label; `None` for an empty label.
fn label_entry(label: &str) -> Result<Option<LabelEntry>> {
    if label.is_empty() {
        return Ok(None);
    }
    let invalid = |reason: &'static str| Err(Error::new(ErrorKind::Invalid, reason));
    if label.chars().any(char::is_control) {
        return invalid("invalid label: control characters are not allowed");
    }
    let mut entry = LabelEntry {
        entry_type: VOLUME_LABEL,
        character_count: 0,
        volume_label: [U16::ZERO; MAX_LABEL_UNITS],
        reserved: [0; 8],
    };
    let mut places = entry.volume_label.iter_mut();
    for unit in label.encode_utf16() {
        let Some(place) = places.next() else {
            return invalid("invalid label: exFAT allows at most 11 characters");
        };
        place.set(unit);
        entry.character_count = entry.character_count.saturating_add(1);
    }
    Ok(Some(entry))
}

/// Returns the first entries of the table: the two reserved ones, and the chains of an empty
/// filesystem.
fn first_entries(layout: &Layout) -> Vec<u8> {
    let firsts = layout.firsts();
    let [Cluster(first), .., Cluster(end)] = firsts;
    let chained = (first..end).map(|cluster| {
        let next = cluster.saturating_add(1);
        if firsts.contains(&Cluster(next)) {
            END
        } else {
            next
        }
    });
    let entries = [FIRST_ENTRY, END].into_iter().chain(chained);
    entries.flat_map(u32::to_le_bytes).collect()
}

/// Returns the first bytes of the bitmap, with `clusters` clusters in use.
fn used_bits(clusters: u32) -> Vec<u8> {
    let mut bits = vec![u8::MAX; index(clusters / 8)];
    bits.push(!u8::MAX.wrapping_shl(clusters % 8));
    bits
}

fn root_entries(layout: &Layout, label: Option<LabelEntry>) -> Vec<u8> {
    let [bitmap, upcase, ..] = layout.firsts();
    let bitmap = BitmapEntry {
        entry_type: ALLOCATION_BITMAP,
        flags: 0,
        reserved: [0; 18],
        first_cluster: U32::new(bitmap.0),
        data_length: U64::new(layout.bitmap_bytes()),
    };
    let upcase = UpcaseEntry {
        entry_type: UPCASE_TABLE,
        reserved_1: [0; 3],
        table_checksum: U32::new(checksum32(RECOMMENDED)),
        reserved_2: [0; 12],
        first_cluster: U32::new(upcase.0),
        data_length: U64::new(len_u64(RECOMMENDED.len())),
    };
    let label = label.iter().flat_map(IntoBytes::as_bytes);
    let both = bitmap.as_bytes().iter().chain(upcase.as_bytes());
    label.chain(both).copied().collect()
}

/// Returns the twelve sectors of a boot region (3).
fn boot_region(layout: &Layout, options: &FormatOptions) -> Vec<u8> {
    let sector = index(layout.sector_bytes);
    let mut region = boot_sector(layout, options).as_bytes().to_vec();
    region.resize(sector, 0);
    for _ in 0..8 {
        region.resize(region.len().saturating_add(sector).saturating_sub(4), 0);
        region.extend(EXTENDED_SIGNATURE.to_le_bytes());
    }
    // The OEM parameters, all of them unused (3.3), and a reserved sector.
    region.resize(
        index(layout.sector_bytes.saturating_mul(CHECKED_SECTORS)),
        0,
    );
    let checksum = region_checksum(&region).to_le_bytes();
    let len = index(layout.sector_bytes.saturating_mul(REGION_SECTORS));
    while region.len() < len {
        region.extend(checksum);
    }
    region
}

fn boot_sector(layout: &Layout, options: &FormatOptions) -> RawBootSector {
    let sectors = |bytes: u64| bytes.checked_div(layout.sector_bytes.into()).unwrap_or(0);
    let few = |bytes: u64| U32::new(low32(sectors(bytes)));
    let shift = |bytes: u32| u8::try_from(bytes.trailing_zeros()).unwrap_or(0);
    let sector_shift = shift(layout.sector_bytes);
    let [.., root, _] = layout.firsts();
    let used = u64::from(layout.used_clusters()).saturating_mul(100);
    let percent = used.checked_div(layout.clusters.into()).unwrap_or(0);
    RawBootSector {
        jump_boot: *b"\xeb\x76\x90",
        file_system_name: *FILE_SYSTEM_NAME,
        must_be_zero: [0; 53],
        partition_offset: U64::new(options.hidden_sectors),
        volume_length: U64::new(sectors(layout.volume_bytes)),
        fat_offset: few(layout.fat_offset),
        fat_length: few(layout.fat_bytes),
        cluster_heap_offset: few(layout.heap_offset),
        cluster_count: U32::new(layout.clusters),
        first_cluster_of_root_directory: U32::new(root.0),
        volume_serial_number: U32::new(options.volume_id),
        file_system_revision: U16::new(0x0100),
        volume_flags: U16::ZERO,
        bytes_per_sector_shift: sector_shift,
        sectors_per_cluster_shift: shift(layout.cluster_bytes).saturating_sub(sector_shift),
        number_of_fats: 1,
        drive_select: 0x80,
        percent_in_use: u8::try_from(percent).unwrap_or(100),
        reserved: [0; 7],
        boot_code: [HALT; BOOT_CODE_BYTES],
        boot_signature: U16::new(SIGNATURE),
    }
}
