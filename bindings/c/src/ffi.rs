//! Conversions between C's pointers and Rust's types: the only place that follows raw pointers.
//!
//! A pointer to one of our objects arrives as `Option<&T>`, `Option<&mut T>` or `Option<Box<T>>`,
//! which have the representation of a pointer that may be null (Rust's reference, "Option",
//! representation). That the pointer comes from this library, and that no other thread frees it, is
//! what `diskfs.h` demands of callers. A place for a result arrives as `MaybeUninit`, so it needs no
//! value before.
#![expect(
    unsafe_code,
    reason = "strings and buffers of C are raw pointers; each function states what it relies on"
)]

use std::ffi::{CStr, CString, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use diskfs::{Error, ErrorKind, Result};

/// Returns the bytes of a string that is required.
///
/// # Errors
/// `Invalid` for NULL.
///
/// # Safety
/// `text` is NULL or points to bytes that end with NUL, which nobody changes during `'a`.
pub(crate) unsafe fn bytes<'a>(text: *const c_char, name: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        let reason = format!("{name}: missing argument (NULL)");
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    // SAFETY: it is not NULL, and the caller promises the rest.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Returns a path of the host.
///
/// # Errors
/// As [`bytes`].
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn path<'a>(text: *const c_char, name: &str) -> Result<&'a Path> {
    // SAFETY: the caller promises the same.
    let bytes = unsafe { bytes(text, name) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Returns a text that is required.
///
/// # Errors
/// As [`bytes`]; `Invalid` if it is not valid UTF-8.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: the caller promises the same.
    let bytes = unsafe { bytes(text, name) }?;
    std::str::from_utf8(bytes).map_err(|error| {
        let reason = format!("{name}: invalid UTF-8 at byte {}", error.valid_up_to());
        Error::new(ErrorKind::Invalid, reason)
    })
}

/// Returns a text that may be NULL.
///
/// # Errors
/// `Invalid` if it is not valid UTF-8.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_text<'a>(
    argument: *const c_char,
    name: &str,
) -> Result<Option<&'a str>> {
    if argument.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises the same.
    unsafe { text(argument, name) }.map(Some)
}

/// Returns the bytes that the caller passes, of which there may be none.
///
/// # Errors
/// `Invalid` for NULL with a length, and for a length that no object can have.
///
/// # Safety
/// `data` is NULL or points to `len` bytes, which nobody changes during `'a`.
pub(crate) unsafe fn input<'a>(data: *const u8, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    check(data, len)?;
    // SAFETY: it is neither NULL nor too long, and the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Returns the buffer that the caller passes, filled with zeros.
///
/// # Errors
/// As [`input`].
///
/// # Safety
/// `buffer` is NULL or points to `len` bytes that nobody else uses during `'a`. They need no value.
pub(crate) unsafe fn output<'a>(buffer: *mut u8, len: usize) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(buffer, len)?;
    // SAFETY: it is neither NULL nor too long, the caller promises the rest, and all bytes are
    // initialized before the slice is made.
    Ok(unsafe {
        buffer.write_bytes(0, len);
        std::slice::from_raw_parts_mut(buffer, len)
    })
}

fn check(buffer: *const u8, len: usize) -> Result<()> {
    let reason = if buffer.is_null() {
        "missing buffer (NULL)"
    } else if isize::try_from(len).is_err() {
        "the buffer is larger than the address space"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid, reason))
}

/// Returns an object that is required.
///
/// # Errors
/// `Invalid` for NULL.
pub(crate) fn object<T>(object: Option<T>, name: &str) -> Result<T> {
    object.ok_or_else(|| {
        let reason = format!("{name}: missing argument (NULL)");
        Error::new(ErrorKind::Invalid, reason)
    })
}

/// Stores a result where the caller wants it.
pub(crate) fn put<T>(place: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(place) = place {
        place.write(value);
    }
}

/// Returns a string for C; a NUL in it, which no name or document has, becomes a space.
pub(crate) fn string(bytes: impl Into<Vec<u8>>) -> CString {
    let bytes: Vec<u8> = bytes.into();
    let bytes = bytes
        .into_iter()
        .map(|byte| if byte == 0 { b' ' } else { byte });
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}

/// Frees a string that a function of this library has returned. NULL is ignored.
///
/// # Safety
/// `text` is NULL or such a string, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it is from `CString::into_raw`, in this library, as the caller promises.
        drop(unsafe { CString::from_raw(text) });
    }
}
