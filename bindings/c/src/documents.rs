//! Documents about a disk, as JSON.
#![expect(unsafe_code, reason = "exported names are unsafe attributes")]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;

use diskfs::document::Sources;
use diskfs::inspect::Depth;

use crate::disk::DiskfsDisk;
use crate::error::{DiskfsError, guard};
use crate::ffi::{self, string};

/// Describes the image, its volumes and filesystems, as `diskfs info --json` does. What can't be
/// read is a warning in the document. Free it with `diskfs_string_free()`.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_info_json(
    disk: Option<&DiskfsDisk>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> *mut c_char {
    guard(error, ptr::null_mut(), || {
        let document = ffi::object(disk, "disk")?.0.info()?;
        Ok(string(document.to_string()).into_raw())
    })
}

/// Describes the operating systems, as `diskfs inspect --json` does: packages, users, network,
/// services. With `with_sources`, it names the file and line of each fact. Free it with
/// `diskfs_string_free()`.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_inspect_json(
    disk: Option<&DiskfsDisk>,
    with_sources: bool,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> *mut c_char {
    guard(error, ptr::null_mut(), || {
        let sources = if with_sources {
            Sources::Included
        } else {
            Sources::Omitted
        };
        let disk = ffi::object(disk, "disk")?;
        let document = disk.0.inspect(Depth::Files, sources)?;
        Ok(string(document.to_string()).into_raw())
    })
}
