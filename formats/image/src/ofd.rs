//! Open file description locks (fcntl(2)), which rustix does not support.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Takes a shared lock on one byte, without waiting.
pub(crate) fn lock_shared(file: &impl AsFd, byte: u64) -> Result<(), Errno> {
    let mut lock = request(libc::F_RDLCK, byte)?;
    fcntl(file, libc::F_OFD_SETLK, &mut lock)
}

/// Returns true if another open file holds any lock on the byte.
pub(crate) fn is_locked(file: &impl AsFd, byte: u64) -> Result<bool, Errno> {
    // Asks whether an exclusive lock would conflict; takes no lock.
    let mut lock = request(libc::F_WRLCK, byte)?;
    fcntl(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

fn request(kind: i32, byte: u64) -> Result<libc::flock, Errno> {
    Ok(libc::flock {
        l_type: kind.try_into().map_err(|_| Errno::INVAL)?,
        l_whence: libc::SEEK_SET.try_into().map_err(|_| Errno::INVAL)?,
        l_start: byte.try_into().map_err(|_| Errno::INVAL)?,
        l_len: 1,
        // The field must be zero for these commands (fcntl(2)).
        l_pid: 0,
    })
}

#[expect(
    unsafe_code,
    reason = "neither std nor rustix has open file description locks"
)]
fn fcntl(file: &impl AsFd, command: i32, lock: &mut libc::flock) -> Result<(), Errno> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for as long as `file` is borrowed, and both commands that this module
    // uses take a pointer to a `flock`, which they read and write only during the call.
    let result = unsafe { libc::fcntl(fd, command, std::ptr::from_mut(lock)) };
    if result == -1 {
        let code = std::io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO)));
    }
    Ok(())
}
