//! Changes by path.
#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, and the strings are raw pointers"
)]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use diskfs::{Result, WritableFilesystem};

use crate::disk::{DiskfsDisk, Place, place};
use crate::error::{DiskfsError, guard};
use crate::ffi;

/// Makes a change at a path.
///
/// # Safety
/// As [`place`].
unsafe fn change(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
    act: impl FnOnce(&WritableFilesystem, &[u8]) -> Result<()>,
) -> bool {
    guard(error, false, || {
        // SAFETY: the caller promises the same.
        let Place { tree, path } = unsafe { place(disk, volume, path) }?;
        act(tree.writer()?, path).map(|()| true)
    })
}

/// Creates a directory with mode 0755.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_mkdir(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    // SAFETY: the caller promises it.
    unsafe { change(disk, volume, path, error, |fs, path| fs.mkdir(path)) }
}

/// Creates a directory and its missing parents with mode 0755.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_mkdir_all(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    // SAFETY: the caller promises it.
    unsafe { change(disk, volume, path, error, |fs, path| fs.mkdir_all(path)) }
}

/// Removes a file, a symlink (not its target) or an empty directory.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_remove(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    // SAFETY: the caller promises it.
    unsafe { change(disk, volume, path, error, |fs, path| fs.remove(path)) }
}

/// Removes a file, or a directory with everything below it. Symlinks are not followed.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_remove_all(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    // SAFETY: the caller promises it.
    unsafe { change(disk, volume, path, error, |fs, path| fs.remove_all(path)) }
}

/// Renames a file or a directory within one filesystem. An existing file at `to` is replaced.
///
/// # Safety
/// `volume`, `from` and `to` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_rename(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    from: *const c_char,
    to: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    // SAFETY: the caller promises it.
    unsafe {
        change(disk, volume, from, error, |fs, from| {
            fs.rename(from, ffi::bytes(to, "to")?)
        })
    }
}

/// Creates a symlink at `path` to `target`, which need not exist.
///
/// # Safety
/// `volume`, `target` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_symlink(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    target: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    // SAFETY: the caller promises it.
    unsafe {
        change(disk, volume, path, error, |fs, path| {
            fs.symlink(ffi::bytes(target, "target")?, path)
        })
    }
}

/// Sets the permissions of a file, the low 12 bits of its mode. A symlink is followed.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_chmod(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    permissions: u16,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    // SAFETY: the caller promises it.
    unsafe {
        change(disk, volume, path, error, |fs, path| {
            fs.set_permissions(path, permissions)
        })
    }
}

/// Sets the owner and the group of a file; `UINT32_MAX` keeps the present one. Symlinks are not
/// followed.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_chown(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    uid: u32,
    gid: u32,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    let id = |id: u32| (id != u32::MAX).then_some(id);
    // SAFETY: the caller promises it.
    unsafe {
        change(disk, volume, path, error, |fs, path| {
            fs.chown(path, id(uid), id(gid))
        })
    }
}
