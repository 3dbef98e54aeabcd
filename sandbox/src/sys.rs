//! System calls that neither std nor rustix offers.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix has close_range, and closing descriptors by number is unsafe"
)]

use std::io;

/// Closes every descriptor from `first` on.
///
/// # Safety
/// Nothing in this process may own a descriptor with the number `first` or a higher one: its owner
/// would later use or close a descriptor that belongs to something else.
pub(crate) unsafe fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: the call takes no pointers; the caller guarantees that nobody owns the descriptors.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::ENOSYS) {
        return Err(error);
    }
    // Linux before 5.9: one by one, up to the highest number that is possible.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = most.unwrap_or(1 << 20).min(1 << 20);
    for number in u64::from(first)..most {
        let Ok(number) = libc::c_int::try_from(number) else {
            break;
        };
        // SAFETY: as above. Numbers that are not open are refused, which does no harm.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Closes all descriptors but the standard ones. For the start of a program, when nothing owns any
/// other descriptor.
pub(crate) fn close_all_but_standard_ones() -> io::Result<()> {
    // SAFETY: the only caller is `worker::serve`, as its first step: the documentation of that
    // function demands that the program has opened nothing before. Descriptors above 2 were
    // inherited, and no object of this process owns them.
    unsafe { close_from(3) }
}
