//! The volumes of a disk.
#![expect(unsafe_code, reason = "exported names are unsafe attributes")]

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;

use diskfs_session::VolumeSummary;

use crate::disk::DiskfsDisk;
use crate::error::{DiskfsError, guard};
use crate::ffi::{self, put, string};

/// The list of the volumes of a disk.
#[derive(Debug)]
pub struct DiskfsVolumes(Vec<ListedVolume>);

#[derive(Debug)]
struct ListedVolume {
    name: CString,
    kind: Option<CString>,
    label: CString,
    uuid: Option<CString>,
    size_bytes: u64,
    is_readable: bool,
}

/// A volume. Its strings are valid until the list is freed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DiskfsVolume {
    /// The name, such as `p1` or `vg0/root`, which other functions take.
    pub name: *const c_char,
    /// The kind of the content as blkid(8) names it, such as `ext4`; NULL if it is unknown.
    pub kind: *const c_char,
    /// The label of the content; empty without one.
    pub label: *const c_char,
    /// The UUID of the content; NULL without one.
    pub uuid: *const c_char,
    /// The size in bytes.
    pub size_bytes: u64,
    /// True if diskfs can open the content as a filesystem.
    pub is_readable: bool,
}

impl From<VolumeSummary> for ListedVolume {
    fn from(volume: VolumeSummary) -> Self {
        Self {
            name: string(volume.name),
            kind: volume.kind.map(string),
            label: string(volume.label),
            uuid: volume.uuid.map(string),
            size_bytes: volume.size_bytes,
            is_readable: volume.is_readable,
        }
    }
}

impl ListedVolume {
    fn as_c(&self) -> DiskfsVolume {
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |it| it.as_ptr());
        DiskfsVolume {
            name: self.name.as_ptr(),
            kind: pointer(&self.kind),
            label: self.label.as_ptr(),
            uuid: pointer(&self.uuid),
            size_bytes: self.size_bytes,
            is_readable: self.is_readable,
        }
    }
}

/// Lists the volumes of a disk: partitions, logical volumes, arrays, and the decrypted insides of
/// encrypted volumes. The list is freed with `diskfs_volumes_free()`.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_list_volumes(
    disk: Option<&DiskfsDisk>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> Option<Box<DiskfsVolumes>> {
    guard(error, None, || {
        let volumes = ffi::object(disk, "disk")?.0.volumes()?;
        let volumes = volumes.into_iter().map(ListedVolume::from).collect();
        Ok(Some(Box::new(DiskfsVolumes(volumes))))
    })
}

/// Returns the number of volumes; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_volumes_count(volumes: Option<&DiskfsVolumes>) -> usize {
    volumes.map_or(0, |volumes| volumes.0.len())
}

/// Stores the volume with this index, from 0. Returns false past the last one.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_volumes_get(
    volumes: Option<&DiskfsVolumes>,
    index: usize,
    volume: Option<&mut MaybeUninit<DiskfsVolume>>,
) -> bool {
    let found = volumes.and_then(|volumes| volumes.0.get(index));
    if let Some(found) = found {
        put(volume, found.as_c());
    }
    found.is_some()
}

/// Frees a list of volumes. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_volumes_free(volumes: Option<Box<DiskfsVolumes>>) {
    drop(volumes);
}
