//! The application of plans to a guest.
#![expect(
    unsafe_code,
    reason = "exported names are unsafe attributes, and the strings are raw pointers"
)]

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::ptr;

use crate::disk::DiskfsDisk;
use crate::error::{DiskfsError, guard};
use crate::ffi::{self, string};

/// A function that is called during long work with the number of bytes that are done, the total
/// number, and the caller's own pointer. It returns false to cancel the work.
pub type DiskfsProgress =
    Option<unsafe extern "C" fn(done_bytes: u64, total_bytes: u64, data: *mut c_void) -> bool>;

/// Applies a plan, in YAML or JSON, to the only operating system of a disk that is open for
/// writing, and returns the document of `diskfs deploy --json`. Changes so far become durable first.
/// All changes of the plan are durable afterwards, or after an error none, unless the message says
/// otherwise. Files of the disk are closed first. `progress` may be NULL. Free the document with `diskfs_string_free()`.
///
/// # Safety
/// `plan` is NULL or a string; `progress` is NULL or a function that accepts `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_deploy(
    disk: Option<&DiskfsDisk>,
    plan: *const c_char,
    progress: DiskfsProgress,
    data: *mut c_void,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> *mut c_char {
    guard(error, ptr::null_mut(), || {
        let disk = ffi::object(disk, "disk")?;
        // SAFETY: the caller promises it.
        let plan = unsafe { ffi::text(plan, "plan") }?;
        let mut progress = |done, total| {
            // SAFETY: the caller promises that the function accepts the pointer.
            let goes_on = progress.is_none_or(|call| unsafe { call(done, total, data) });
            if goes_on {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let document = disk.0.deploy(plan, &mut progress)?;
        Ok(string(document.to_string()).into_raw())
    })
}

/// Works out what a plan would change, without writing it, and returns the document of `diskfs
/// deploy --dry-run --json` with a diff. Free it with `diskfs_string_free()`.
///
/// # Safety
/// `plan` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diskfs_deploy_dry_run(
    disk: Option<&DiskfsDisk>,
    plan: *const c_char,
    error: Option<&mut MaybeUninit<Option<Box<DiskfsError>>>>,
) -> *mut c_char {
    guard(error, ptr::null_mut(), || {
        let disk = ffi::object(disk, "disk")?;
        // SAFETY: the caller promises it.
        let plan = unsafe { ffi::text(plan, "plan") }?;
        let document = disk.0.deploy_dry_run(plan)?;
        Ok(string(document.to_string()).into_raw())
    })
}
