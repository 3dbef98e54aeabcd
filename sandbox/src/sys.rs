//! System calls that neither std nor rustix offers.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix has close_range, clone and mallopt"
)]

use std::io;

use rustix::process::Pid;

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
    // SAFETY: the only caller is `zygote::workers`, as the first step of `worker::serve`: the
    // documentation of that function demands that the program has opened nothing before. Descriptors above 2 were
    // inherited, and no object of this process owns them.
    unsafe { close_from(3) }
}

/// Makes the C library's allocator keep freed memory, and use one heap for all threads. For workers,
/// which end after one job: what is returned to the kernel costs them page faults when they need it
/// again.
#[cfg(target_env = "gnu")]
pub(crate) fn keep_freed_memory() {
    /// More than a worker can allocate.
    const NEVER_BYTES: libc::c_int = libc::c_int::MAX;
    /// Rare sizes, of which zeroed pages from the kernel are best.
    const MAPPED_FROM_BYTES: libc::c_int = 4 << 20;
    const GROWN_BY_BYTES: libc::c_int = 1 << 20;
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TRIM_THRESHOLD, NEVER_BYTES),
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES),
        (libc::M_TOP_PAD, GROWN_BY_BYTES),
    ] {
        // SAFETY: it takes no pointers. It is only unsafe because other threads may allocate at the
        // same time, and its only caller, the zygote, has one thread.
        unsafe { libc::mallopt(option, value) };
    }
}

/// Other C libraries have no such options.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn keep_freed_memory() {}

/// Forks this process, which must have one thread. Returns `None` in the new process, whose parent is
/// the parent of this one.
///
/// The C library does not learn of the fork: `raise(3)` in the new process's first thread may fail.
/// Threads that it starts are not affected.
pub(crate) fn fork_sibling() -> io::Result<Option<Pid>> {
    let (flags, unused) = (libc::CLONE_PARENT, 0_usize);
    // SAFETY: without CLONE_VM and with no stack, this is a fork: the new process continues here, on
    // a copy of this stack, and shares no memory. Its only caller has checked that no other thread
    // exists, so no lock of the C library or of Rust is held by a thread that the copy lacks.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, unused, unused, unused, unused) };
    match i32::try_from(result) {
        Ok(-1) => Err(io::Error::last_os_error()),
        Ok(pid) => Ok(Pid::from_raw(pid)),
        Err(error) => Err(io::Error::other(error)),
    }
}
