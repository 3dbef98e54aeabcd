//! The boot catalog (El Torito, "Booting Catalog"): the platforms that have boot images.

use crate::boot_record::BootRecord;
use crate::error::Result;
use crate::susp::Blocks;
use crate::volume::Volume;
use crate::volume_descriptor::SECTOR_BYTES;

/// The number of bytes of an entry.
const ENTRY_BYTES: usize = 32;

/// Returns the platforms with entries in the catalog, as feature names like `el-torito-bios` and
/// `el-torito-efi`. Empty if the catalog is invalid.
pub(crate) fn platforms(volume: &Volume, record: BootRecord) -> Result<Vec<&'static str>> {
    let at = u64::from(record.catalog_sector).saturating_mul(SECTOR_BYTES);
    let len = usize::try_from(SECTOR_BYTES).unwrap_or_default();
    let catalog = volume.metadata_at(at, len)?.unwrap_or_default();
    let (entries, _) = catalog.as_chunks::<ENTRY_BYTES>();
    let mut names = Vec::new();
    let is_valid = entries
        .first()
        .is_some_and(|first| first.first() == Some(&1) && first.ends_with(&[0x55, 0xaa]));
    if !is_valid {
        return Ok(names);
    }
    for (number, entry) in entries.iter().enumerate() {
        let [header, platform, ..] = *entry;
        // The validation entry and the section headers name a platform.
        if number == 0 || matches!(header, 0x90 | 0x91) {
            names.push(platform_name(platform));
        }
        if header == 0x91 {
            break;
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn platform_name(platform: u8) -> &'static str {
    match platform {
        0 => "el-torito-bios",
        1 => "el-torito-powerpc",
        2 => "el-torito-mac",
        0xef => "el-torito-efi",
        _ => "el-torito-other",
    }
}
