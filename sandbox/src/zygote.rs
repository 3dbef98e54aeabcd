//! The zygote: a process that has loaded the program, and from which workers are forked.
//!
//! A fork takes a fraction of the time that executing the program takes. The zygote sees no image and
//! no job, so all workers begin in the same clean state.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::message::ForkWorker;
use crate::profile::refuse_threads;
use crate::sys;
use crate::wire::Incoming;

/// Makes this process the zygote, and returns in each worker that it forks, with the connection to
/// the parent. Returns `None` in the zygote once the parent has ended.
///
/// All descriptors above 2 are closed.
pub(crate) fn workers() -> io::Result<Option<UnixStream>> {
    sys::close_all_but_standard_ones()?;
    end_with_parent()?;
    sys::keep_freed_memory();
    rustix::thread::set_name(c"diskfs-zygote")?;
    let mut control = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    rustix::stdio::dup2_stdin(rustix::stdio::stdout())?;
    let mut incoming = Incoming::with_descriptors(0);
    while incoming.next::<ForkWorker>(&control)?.is_some() {
        let connection = incoming.take_descriptor();
        let connection = connection.ok_or(io::ErrorKind::InvalidData)?;
        refuse_threads()?;
        let forked = match sys::fork_sibling() {
            Ok(None) => {
                end_with_parent()?;
                rustix::thread::set_name(c"diskfs-worker")?;
                return Ok(Some(connection.into()));
            }
            Ok(Some(pid)) => pid.as_raw_nonzero().get(),
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO).saturating_neg(),
        };
        control.write_all(&forked.to_le_bytes())?;
    }
    Ok(None)
}

/// Lets the kernel kill this process when its parent ends. A parent that has ended before this has
/// closed the connection.
fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}
