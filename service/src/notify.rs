//! The two protocols of systemd that a service speaks: `sd_notify(3)` and socket activation
//! (`sd_listen_fds(3)`).
#![expect(
    unsafe_code,
    reason = "an inherited descriptor is a number until somebody says that it is one"
)]

use std::ffi::OsStr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

/// The first descriptor that systemd passes.
const FIRST: RawFd = 3;

/// Tells systemd a state, such as `READY=1`. Without systemd this does nothing.
pub(crate) fn notify(state: &str) {
    if let Some(path) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&path, state)
    {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

fn send(path: &OsStr, state: &str) -> std::io::Result<()> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// Returns the listening Unix socket that systemd passes, if it passes one to this process. It can
/// be taken once.
pub(crate) fn inherited_listener() -> Option<UnixListener> {
    static TAKEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let has_one = number("LISTEN_FDS").is_some_and(|count| count >= 1);
    if !is_ours || !has_one || TAKEN.swap(true, std::sync::atomic::Ordering::Relaxed) {
        return None;
    }
    // SAFETY: systemd has opened this descriptor for this process (the variables name its PID), and
    // nothing else owns it: it is taken at most once.
    let descriptor = unsafe { OwnedFd::from_raw_fd(FIRST) };
    Some(UnixListener::from(descriptor))
}
