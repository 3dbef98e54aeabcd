//! An open disk.
#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, and the strings are raw pointers"
)]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use diskfs::Result;
use diskfs_session::{Session, Tree};

use crate::error::{DiskfsError, guard};
use crate::ffi;
use crate::options::DiskfsOptions;

/// An open disk, which any number of threads can use.
#[derive(Debug)]
pub struct DiskfsDisk(pub(crate) Session);

/// Returns the version of the library, such as `0.1.0`. It is valid forever.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Opens the image at `path`. The options may be NULL, and may be freed afterwards. The disk is
/// closed with `diskfs_close()`.
///
/// # Safety
/// `path` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_open(
    path: *const c_char,
    options: Option<&DiskfsOptions>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> Option<Box<DiskfsDisk>> {
    guard(error, None, || {
        // SAFETY: the caller promises it.
        let path = unsafe { ffi::path(path, "path") }?;
        let defaults = DiskfsOptions::default();
        let session = Session::open(path, &options.unwrap_or(&defaults).0)?;
        Ok(Some(Box::new(DiskfsDisk(session))))
    })
}

/// Makes all changes so far durable.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_sync(
    disk: Option<&DiskfsDisk>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        ffi::object(disk, "disk")?.0.sync().map(|()| true)
    })
}

/// Closes a disk and frees it, also after an error. When it returns true, all changes are durable.
/// NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_close(
    disk: Option<Box<DiskfsDisk>>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        disk.map_or(Ok(()), |disk| disk.0.close()).map(|()| true)
    })
}

/// The tree and the path that arguments name.
pub(crate) struct Place<'a> {
    pub(crate) tree: Tree,
    pub(crate) path: &'a [u8],
}

/// Returns the place that arguments name.
///
/// # Errors
/// `Invalid` for NULL and invalid UTF-8; the errors of opening the tree.
///
/// # Safety
/// `volume` and `path` are NULL or strings, which nobody changes during `'a`.
pub(crate) unsafe fn place<'a>(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
) -> Result<Place<'a>> {
    let disk = ffi::object(disk, "disk")?;
    // SAFETY: the caller promises it.
    let volume = unsafe { ffi::optional_text(volume, "volume") }?;
    // SAFETY: the caller promises it.
    let path = unsafe { ffi::bytes(path, "path") }?;
    let tree = disk.0.tree(volume)?;
    Ok(Place { tree, path })
}
