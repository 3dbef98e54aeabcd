//! The start of the host's write-back of a file, for which rustix has no function.
#![expect(unsafe_code, reason = "a call of libc on an open file")]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Tells the host to begin to write the file's changes to its disk. Waits for none of them.
///
/// An error is no loss: the flush that follows writes the changes in any case.
pub(super) fn begin(fd: BorrowedFd<'_>) {
    // SAFETY: the call takes an open file, which the borrow keeps open, and no pointer.
    unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
