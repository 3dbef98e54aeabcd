//! PID 1's part: what has to be there before anything can be served, and how it ends.

mod command_line;
pub(crate) mod modules;
mod port;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};

use diskfs_remote::server::{Ending, serve};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::system::{RebootCommand, reboot};

use crate::LinuxMachine;
use crate::kernel_calls::reap_orphans;
use command_line::CommandLine;

/// As many files as the kernel lets a process open.
const MAX_FILES: u64 = 1 << 20;

/// Serves until the host has had enough or is gone, then turns the machine off.
pub fn run() -> ! {
    if let Err(error) = serve_host() {
        log(&format!("{error}"));
    }
    rustix::fs::sync();
    let end = CommandLine::read().end;
    reboot(end).ok();
    // Only if that is forbidden.
    reboot(RebootCommand::PowerOff).ok();
    std::process::exit(1)
}

fn serve_host() -> io::Result<()> {
    prepare();
    let command_line = CommandLine::read();
    let port = port::open(command_line.port.as_deref())?;
    let ending = serve(port.try_clone()?, port, &LinuxMachine::default())?;
    if ending == Ending::Lost {
        log("the host is gone");
    }
    Ok(())
}

/// What fails here shows when something is missed.
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
            log(&format!("{target} can't be mounted: {errno}"));
        }
    }
    reap_orphans();
    let limit = Rlimit {
        current: Some(MAX_FILES),
        maximum: Some(MAX_FILES),
    };
    setrlimit(Resource::Nofile, limit).ok();
    modules::load();
}

/// Writes a line where somebody may look: the kernel's log, which the console shows.
fn log(line: &str) {
    let message = format!("<4>diskfs-agent: {}\n", line.replace('\n', " "));
    let kernel_log = OpenOptions::new().write(true).open("/dev/kmsg");
    match kernel_log.and_then(|mut log: File| log.write_all(message.as_bytes())) {
        Ok(()) => {}
        Err(_) => {
            io::stderr().write_all(message.as_bytes()).ok();
        }
    }
}
