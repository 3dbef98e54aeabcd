//! The agent as PID 1: the setup before it serves, and the end of the machine.

mod command_line;
mod port;
mod saving;

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use diskfs_remote::server::{Ending, serve};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::system::{RebootCommand, reboot};

use crate::kernel_log::log;
use crate::{LinuxMachine, modules};
use command_line::CommandLine;

/// The time for the host to receive the last answer.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// The limit of open files, the kernel's maximum.
const MAX_FILES: u64 = 1 << 20;

/// Serves until the host requests a shutdown or disconnects, then turns the machine off.
pub fn run() -> ! {
    if let Err(error) = serve_host() {
        log(&format!("{error}"));
    }
    rustix::fs::sync();
    let end = CommandLine::read().end;
    reboot(end).ok();
    // Reached only if the chosen kind of reboot is not allowed.
    reboot(RebootCommand::PowerOff).ok();
    std::process::exit(1)
}

fn serve_host() -> io::Result<()> {
    prepare();
    let command_line = CommandLine::read();
    if command_line.is_saved {
        saving::prepare();
    }
    // From here on the machine may be saved at any moment.
    let port = port::open(command_line.port.as_deref())?;
    port::wait_for_host(&port)?;
    let machine = LinuxMachine::of_init(command_line.is_saved);
    let ending = serve(port.try_clone()?, port, &machine)?;
    match ending {
        Ending::Lost => log("the host has disconnected"),
        // The last answer is still on its way, and would be lost if the machine ended now. The host
        // ends the machine when it has received the answer; nothing is mounted any more.
        Ending::ShutDown => thread::sleep(LAST_ANSWER),
    }
    Ok(())
}

/// Prepares the machine. A failure here is only logged, because it shows up where it matters.
fn prepare() {
    let mounts = [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/run"),
    ];
    for (kind, target) in mounts {
        fs::create_dir_all(target).ok();
        let mounted = mount(
            kind,
            target,
            kind,
            MountFlags::empty(),
            None::<&std::ffi::CStr>,
        );
        if let Err(errno) = mounted
            && errno != rustix::io::Errno::BUSY
        {
            log(&format!("cannot mount {target}: {errno}"));
        }
    }
    let limit = Rlimit {
        current: Some(MAX_FILES),
        maximum: Some(MAX_FILES),
    };
    setrlimit(Resource::Nofile, limit).ok();
    modules::load();
}
