//! The text of a descriptor to write.

use diskfs_block::bytes::index;

use super::options::WriteOptions;
use crate::create_type::CreateType;
use crate::sectors::SECTOR_BYTES;

/// The sectors that the descriptor has in the file, as QEMU and VMware write it.
pub(super) const DESCRIPTOR_SECTORS: u64 = 20;

/// Sectors per track, in every geometry.
const TRACK_SECTORS: u64 = 63;

/// Returns the descriptor, filled up with zeroes.
pub(super) fn descriptor_text(options: &WriteOptions, create_type: &CreateType) -> Vec<u8> {
    let is_ide = options.adapter_type == "ide";
    let heads = if is_ide { 16 } else { 255 };
    let cylinder_sectors = TRACK_SECTORS.saturating_mul(heads).max(1);
    let cylinders = options.capacity_sectors().div_euclid(cylinder_sectors);
    let mut text = format!(
        "# Disk DescriptorFile\n\
         version=1\n\
         encoding=\"UTF-8\"\n\
         CID={:08x}\n\
         parentCID=ffffffff\n\
         createType=\"{}\"\n\
         \n\
         # Extent description\n\
         RW {} SPARSE \"{}\"\n\
         \n\
         # The Disk Data Base\n\
         #DDB\n\
         \n\
         ddb.virtualHWVersion = \"{}\"\n\
         ddb.geometry.cylinders = \"{}\"\n\
         ddb.geometry.heads = \"{heads}\"\n\
         ddb.geometry.sectors = \"{TRACK_SECTORS}\"\n\
         ddb.adapterType = \"{}\"\n",
        options.content_id,
        create_type.name(),
        options.capacity_sectors(),
        options.file_name,
        options.hardware_version,
        // The most cylinders of an IDE disk.
        if is_ide {
            cylinders.min(16383)
        } else {
            cylinders
        },
        options.adapter_type,
    )
    .into_bytes();
    text.resize(index(DESCRIPTOR_SECTORS.saturating_mul(SECTOR_BYTES)), 0);
    text
}
