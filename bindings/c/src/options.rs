//! The options for opening a disk.
#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, and the strings are raw pointers"
)]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::PathBuf;

use diskfs::{Error, ErrorKind, Gate, Result};
use diskfs_session::{Access, SessionOptions};

use crate::error::{DiskfsError, guard};
use crate::ffi;

/// The options for opening a disk.
#[derive(Debug, Default)]
pub struct DiskfsOptions(pub(crate) SessionOptions);

/// The kind of access to a disk.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum DiskfsAccess {
    /// Reading only, which is the default. Nothing is written to the image.
    ReadOnly = 0,
    /// Reading and writing. The image is locked against all other processes.
    Write = 1,
    /// Writing into memory: the changes are discarded when the disk is closed.
    DryRun = 2,
}

fn set(
    options: Option<&mut DiskfsOptions>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
    act: impl FnOnce(&mut SessionOptions) -> Result<()>,
) -> bool {
    guard(error, false, || {
        act(&mut ffi::object(options, "options")?.0).map(|()| true)
    })
}

/// Returns new options: reading, the format of the image is probed, and the image may refer to files
/// in its own directory that have the same owner. They are freed with `diskfs_options_free()`.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_options_new() -> Box<DiskfsOptions> {
    Box::default()
}

/// Frees options. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_options_free(options: Option<Box<DiskfsOptions>>) {
    drop(options);
}

/// Sets the kind of access, a value of `diskfs_access`.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_options_set_access(
    options: Option<&mut DiskfsOptions>,
    access: u32,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        options.access = match access {
            0 => Access::ReadOnly,
            1 => Access::Write,
            2 => Access::DryRun,
            _ => {
                let reason = format!("invalid access {access}");
                return Err(Error::new(ErrorKind::Invalid, reason));
            }
        };
        Ok(())
    })
}

/// Writes all changes into a qcow2 overlay at `path`, which is created if it is missing. The image
/// itself stays unchanged.
///
/// # Safety
/// `path` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_options_set_overlay(
    options: Option<&mut DiskfsOptions>,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        // SAFETY: the caller promises it.
        let path = unsafe { ffi::path(path, "path") }?;
        options.access = Access::Overlay(PathBuf::from(path));
        Ok(())
    })
}

/// Sets the format of the image, `raw`, `qcow2`, `vhdx` and others, instead of probing it.
///
/// # Safety
/// `format` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_options_set_format(
    options: Option<&mut DiskfsOptions>,
    format: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        // SAFETY: the caller promises it.
        options.set_format(unsafe { ffi::text(format, "format") }?)
    })
}

/// Reads an internal snapshot of the image, by name or ID.
///
/// # Safety
/// `snapshot` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_options_set_snapshot(
    options: Option<&mut DiskfsOptions>,
    snapshot: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        // SAFETY: the caller promises it.
        options.set_snapshot(unsafe { ffi::text(snapshot, "snapshot") }?);
        Ok(())
    })
}

/// Adds a passphrase of `len` bytes for one encrypted volume or image, or for all (NULL).
///
/// # Safety
/// `volume` is NULL or a string; `passphrase` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_options_add_passphrase(
    options: Option<&mut DiskfsOptions>,
    volume: *const c_char,
    passphrase: *const u8,
    len: usize,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        // SAFETY: the caller promises it.
        let volume = unsafe { ffi::optional_text(volume, "volume") }?;
        // SAFETY: the caller promises it.
        let passphrase = unsafe { ffi::input(passphrase, len) }?;
        options.add_passphrase(volume, passphrase);
        Ok(())
    })
}

/// Lets the image refer to files below a directory: a backing file or a data file.
///
/// # Safety
/// `directory` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_options_allow_backing(
    options: Option<&mut DiskfsOptions>,
    directory: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        // SAFETY: the caller promises it.
        let directory = unsafe { ffi::path(directory, "directory") }?;
        options.gate = std::mem::take(&mut options.gate).allow(directory);
        Ok(())
    })
}

/// Refuses all files that the image refers to.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_options_refuse_backing(
    options: Option<&mut DiskfsOptions>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        options.gate = Gate::closed();
        Ok(())
    })
}

/// Opens the image even if a running machine uses it. The data may be inconsistent.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_options_force_share(
    options: Option<&mut DiskfsOptions>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        options.force_share();
        Ok(())
    })
}

/// Adds another disk of the same machine, whose volumes are named `disk2/p1` and so on.
///
/// # Safety
/// `path` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_options_add_disk(
    options: Option<&mut DiskfsOptions>,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    set(options, error, |options| {
        // SAFETY: the caller promises it.
        options.add_disk(unsafe { ffi::path(path, "path") }?);
        Ok(())
    })
}
