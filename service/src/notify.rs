//! The two protocols of systemd that a service speaks: `sd_notify(3)` and socket activation
//! (`sd_listen_fds(3)`).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use listenfd::ListenFd;

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

/// Returns the listening Unix socket that systemd passes, if it passes one to this process.
///
/// # Errors
/// If the descriptor is another one.
pub(crate) fn inherited_listener() -> std::io::Result<Option<UnixListener>> {
    ListenFd::from_env().take_unix_listener(0)
}
