//! Extended attributes.

use crate::checksum::name_hash;
use crate::dir_item::DirRecords;
use crate::error::{Result, unsupported};
use crate::key::{Key, item};
use crate::subvolumes::FileId;
use crate::volume::Volume;

/// The largest list of names. Linux returns at most 64 KiB (`XATTR_LIST_MAX`).
const LIST_MAX_BYTES: usize = 1 << 20;

/// Returns the value of an attribute.
pub(crate) fn get(volume: &Volume, file: &FileId, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let key = Key::new(file.inode, item::XATTR_ITEM, name_hash(name));
    let Some(found) = volume.find(&file.subvolume.tree, key)? else {
        return Ok(None);
    };
    for record in DirRecords::of(&found) {
        let record = record?;
        if record.name == name {
            return Ok(Some(record.value.to_vec()));
        }
    }
    Ok(None)
}

/// Returns the names of all attributes.
pub(crate) fn list(volume: &Volume, file: &FileId) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut len_bytes = 0_usize;
    let first = Key::new(file.inode, item::XATTR_ITEM, 0);
    volume.each(&file.subvolume.tree, first, |found| {
        for record in DirRecords::of(found) {
            let name = record?.name;
            len_bytes = len_bytes.saturating_add(name.len()).saturating_add(1);
            if len_bytes > LIST_MAX_BYTES {
                return Err(unsupported("more than 1 MiB of names of attributes"));
            }
            names.push(name.to_vec());
        }
        Ok(())
    })?;
    Ok(names)
}
