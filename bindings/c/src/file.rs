//! Open files, and whole files.
#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, and strings and buffers are raw pointers"
)]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use diskfs::{Error, ErrorKind, Result};
use diskfs_session::{FileMode, OpenFile};

use crate::disk::{DiskfsDisk, Place, place};
use crate::error::{DiskfsError, guard};
use crate::ffi::{self, put};

/// An open regular file, which any number of threads can use.
#[derive(Debug)]
pub struct DiskfsFile(OpenFile);

/// The way in which a file is opened.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum DiskfsFileMode {
    /// An existing file for reading.
    Read = 0,
    /// An existing file for reading and writing.
    Write = 1,
    /// An existing or a new file for reading and writing.
    WriteOrCreate = 2,
    /// An empty file for reading and writing: an existing one is truncated.
    Truncate = 3,
    /// A new file for reading and writing, which must not exist.
    CreateNew = 4,
}

fn file_mode(mode: u32) -> Result<FileMode> {
    Ok(match mode {
        0 => FileMode::Read,
        1 => FileMode::Write,
        2 => FileMode::WriteOrCreate,
        3 => FileMode::Truncate,
        4 => FileMode::CreateNew,
        _ => {
            let reason = format!("invalid file mode {mode}");
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
    })
}

/// Opens a regular file. `mode` is a value of `diskfs_file_mode`. The file is closed with
/// `diskfs_file_close()`.
///
/// # Safety
/// `volume` and `path` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_open_file(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    mode: u32,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> Option<Box<DiskfsFile>> {
    guard(error, None, || {
        let mode = file_mode(mode)?;
        let disk = ffi::object(disk, "disk")?;
        // SAFETY: the caller promises it.
        let volume = unsafe { ffi::optional_text(volume, "volume") }?;
        // SAFETY: the caller promises it.
        let path = unsafe { ffi::bytes(path, "path") }?;
        let file = disk.0.open_file(volume, path, mode)?;
        Ok(Some(Box::new(DiskfsFile(file))))
    })
}

/// Stores the size of a file in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_file_size(
    file: Option<&DiskfsFile>,
    size_bytes: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        put(size_bytes, ffi::object(file, "file")?.0.size_bytes()?);
        Ok(true)
    })
}

/// Reads up to `len` bytes from byte `offset` on. Stores the number of bytes read, which is less
/// than `len` only at the end of the file. The rest of the buffer is then filled with zeros.
///
/// # Safety
/// `buffer` points to `len` bytes, which no other thread uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_read_at(
    file: Option<&DiskfsFile>,
    offset: u64,
    buffer: *mut u8,
    len: usize,
    read: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        let file = ffi::object(file, "file")?;
        // SAFETY: the caller promises it.
        let buffer = unsafe { ffi::output(buffer, len) }?;
        put(read, file.0.read_at(offset, buffer)?);
        Ok(true)
    })
}

/// Writes all `len` bytes at byte `offset`. After an error a part may be written.
///
/// # Safety
/// `data` points to `len` bytes, which no other thread changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_write_at(
    file: Option<&DiskfsFile>,
    offset: u64,
    data: *const u8,
    len: usize,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        let file = ffi::object(file, "file")?;
        // SAFETY: the caller promises it.
        let data = unsafe { ffi::input(data, len) }?;
        file.0.write_at(offset, data).map(|()| true)
    })
}

/// Truncates a file, or extends it with a hole.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_set_len(
    file: Option<&DiskfsFile>,
    size_bytes: u64,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        let file = ffi::object(file, "file")?;
        file.0.set_len(size_bytes).map(|()| true)
    })
}

/// Makes the contents and the name of a file durable.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_file_sync(
    file: Option<&DiskfsFile>,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        ffi::object(file, "file")?.0.sync().map(|()| true)
    })
}

/// Closes a file and frees it. It makes nothing durable: `diskfs_file_sync()`, `diskfs_sync()` and
/// `diskfs_close()` do. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn diskfs_file_close(file: Option<Box<DiskfsFile>>) {
    drop(file);
}

/// Replaces the contents of a file. A missing file is created with mode 0644; owner, mode and
/// attributes of an existing one are kept.
///
/// # Safety
/// `volume` and `path` are NULL or strings; `data` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_write_file(
    disk: Option<&DiskfsDisk>,
    volume: *const c_char,
    path: *const c_char,
    data: *const u8,
    len: usize,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> bool {
    guard(error, false, || {
        // SAFETY: the caller promises it.
        let Place { tree, path } = unsafe { place(disk, volume, path) }?;
        // SAFETY: the caller promises it.
        let data = unsafe { ffi::input(data, len) }?;
        tree.writer()?.write(path, data).map(|()| true)
    })
}
