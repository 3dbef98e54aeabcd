//! The job of `ProbeImageInfo`: what is on an image.

use diskfs_disk::{Disk, Filesystem, Result};
use diskfs_volume::{PartitionKind, TableKind};
use serde::{Deserialize, Serialize};

use super::guest::{Guest, System};
use super::{Access, JobContext, Phase, Source, enter};

/// Reports what is on an image. Nothing is written: a journal is replayed in memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Probe {
    /// The image.
    pub disk: Source,
}

/// The report on an image. If no system was found, only its defaults are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the answer"
)]
pub struct ImageReport {
    /// The system, if there is one.
    pub system: Option<System>,
    /// True if UEFI firmware can boot the image: it has an EFI program.
    pub boots_uefi: bool,
    /// True if a BIOS can boot the image.
    pub boots_bios: bool,
    /// True if the root filesystem is on a logical volume.
    pub is_lvm: bool,
    /// True if the root filesystem cannot be written.
    pub is_read_only: bool,
    /// The partition table: `gpt`, `mbr`, or empty for none.
    pub partition_table: String,
    /// True if cloud-init is installed.
    pub has_cloud_init: bool,
}

/// The type of the partition in which GRUB stores its image for a BIOS (`EF02` of sgdisk).
const BIOS_BOOT: &str = "21686148-6449-6e6f-744e-656564454649";

/// The directories of EFI programs on an EFI system partition.
const EFI: [&str; 2] = ["/EFI", "/efi"];

/// The number of entries that the search for an EFI program looks at.
const MAX_EFI_ENTRIES: usize = 10_000;

impl Probe {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<ImageReport> {
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, Access::Read)?;
        enter(context, Phase::Prepare)?;
        let Some(guest) = Guest::find(&disk)? else {
            return Ok(ImageReport::default());
        };
        Ok(ImageReport {
            boots_uefi: boots_uefi(&disk)?,
            boots_bios: boots_bios(&disk)?,
            is_lvm: guest.found.volume().logical().is_some(),
            is_read_only: guest.is_read_only()?,
            partition_table: table_name(&disk)?.to_owned(),
            has_cloud_init: guest.filesystem.exists("/usr/bin/cloud-init")?,
            system: Some(guest.system),
        })
    }
}

/// Returns the host-deployer's name of the partition table.
fn table_name(disk: &Disk) -> Result<&'static str> {
    Ok(match disk.partition_table()?.map(|table| table.kind) {
        Some(TableKind::Gpt | TableKind::HybridMbr) => "gpt",
        Some(TableKind::Mbr) => "mbr",
        Some(TableKind::Bsd) => "bsd",
        Some(TableKind::Sun) => "sun",
        Some(TableKind::Sgi) => "sgi",
        Some(TableKind::Apple) => "mac",
        _ => "",
    })
}

/// Returns true if the first sector has the signature of a boot sector, and the table is an MBR or
/// has a partition for the boot loader.
fn boots_bios(disk: &Disk) -> Result<bool> {
    let Some(table) = disk.partition_table()? else {
        return Ok(false);
    };
    let mut signature = [0; 2];
    disk.device().read_at(510, &mut signature)?;
    let has_loader = || {
        table
            .partitions
            .iter()
            .any(|partition| match &partition.kind {
                PartitionKind::Gpt { type_guid, .. } => type_guid.to_string() == BIOS_BOOT,
                _ => false,
            })
    };
    let is_mbr = table.kind == TableKind::Mbr;
    Ok(signature == [0x55, 0xaa] && (is_mbr || has_loader()))
}

/// Returns true if a volume has an EFI program.
fn boots_uefi(disk: &Disk) -> Result<bool> {
    for volume in disk.volumes()? {
        let is_candidate = volume.problem().is_none() && !disk.is_member(volume)?;
        if !is_candidate || !volume.is_readable()? {
            continue;
        }
        // A volume that cannot be read has no program that anything could start.
        if volume.filesystem().is_ok_and(|fs| has_efi_program(&fs)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_efi_program(fs: &Filesystem) -> bool {
    EFI.iter().any(|dir| {
        let Ok(entries) = fs.walk(dir) else {
            return false;
        };
        entries
            .take(MAX_EFI_ENTRIES)
            .filter_map(std::result::Result::ok)
            .any(|entry| entry.path.to_ascii_lowercase().ends_with(b".efi"))
    })
}
