//! The entries of a directory.
#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, and the strings are raw pointers"
)]

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use diskfs::vfs::Follow;

use crate::disk::{DiskfsDisk, Place, place};
use crate::error::{DiskfsError, guard};
use crate::ffi::{put, string};
use crate::metadata::DiskfsFileType;

/// The entries of a directory that was read.
#[derive(Debug)]
pub struct DiskfsDir {
    entries: Vec<ListedEntry>,
    next: usize,
}

#[derive(Debug)]
struct ListedEntry {
    name: CString,
    inode: u64,
    file_type: DiskfsFileType,
}

/// An entry of a directory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DiskfsEntry {
    /// The name, which is valid until the directory is freed.
    pub name: *const c_char,
    /// The inode number.
    pub inode: u64,
    /// The type of the file; of a symlink itself.
    pub file_type: DiskfsFileType,
}

/// Reads a directory, sorted by name, without `.` and `..`. It is freed with `diskfs_dir_free()`.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_read_dir(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> Option<Box<DiskfsDir>> {
    guard(error, None, || {
        // SAFETY: the caller promises it.
        let Place { tree, path } = unsafe { place(disk, volume, path) }?;
        let dir = tree.reader().node(path, Follow::All)?;
        let entries = dir.read_dir_sorted()?.into_iter().map(|entry| {
            let file_type = match entry.file_type {
                Some(file_type) => file_type,
                None => dir.below(&entry.name, entry.inode).metadata()?.file_type,
            };
            Ok(ListedEntry {
                name: string(entry.name),
                inode: entry.inode.0,
                file_type: file_type.into(),
            })
        });
        let entries = entries.collect::<diskfs::Result<_>>()?;
        Ok(Some(Box::new(DiskfsDir { entries, next: 0 })))
    })
}

/// Stores the next entry. Returns false after the last one.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_dir_next(
    dir: Option<&mut DiskfsDir>,
    entry: Option<&mut MaybeUninit<DiskfsEntry>>,
) -> bool {
    let Some(dir) = dir else {
        return false;
    };
    let Some(found) = dir.entries.get(dir.next) else {
        return false;
    };
    dir.next = dir.next.saturating_add(1);
    put(
        entry,
        DiskfsEntry {
            name: found.name.as_ptr(),
            inode: found.inode,
            file_type: found.file_type,
        },
    );
    true
}

/// Frees a directory. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_dir_free(dir: Option<Box<DiskfsDir>>) {
    drop(dir);
}
