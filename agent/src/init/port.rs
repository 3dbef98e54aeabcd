//! The stream to the host.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::waiting::pause;

/// The name of the host's port.
const NAME: &str = "diskfs.0";

/// The directory in which the kernel lists ports with their names.
const PORTS: &str = "/sys/class/virtio-ports";

/// The first port of the first device, used if ports have no names.
const FIRST: &str = "/dev/vport0p1";

/// The timeout for the port to appear.
const DEADLINE: Duration = Duration::from_secs(5);

/// Opens the port: the given file, or the virtio port with our name.
pub(super) fn open(named: Option<&str>) -> io::Result<File> {
    let began = Instant::now();
    loop {
        let path = match named {
            Some(named) => Some(PathBuf::from(named)),
            None => find(),
        };
        if let Some(path) = path
            && let Ok(port) = OpenOptions::new().read(true).write(true).open(&path)
        {
            make_raw(&port)?;
            return Ok(port);
        }
        if began.elapsed() > DEADLINE {
            let reason = "missing virtio port of the host";
            return Err(io::Error::new(io::ErrorKind::NotFound, reason));
        }
        pause(began);
    }
}

/// Waits until the host has opened the port: before that, a read returns the end of the stream at
/// once.
pub(super) fn wait_for_host(port: &File) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let mut wanted = [PollFd::new(port, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec::default()))?;
        if !wanted
            .iter()
            .any(|port| port.revents().contains(PollFlags::HUP))
        {
            return Ok(());
        }
        pause(began);
    }
}

fn find() -> Option<PathBuf> {
    let Ok(ports) = fs::read_dir(PORTS) else {
        return Some(Path::new(FIRST).to_owned()).filter(|path| path.exists());
    };
    let is_ours = |port: &fs::DirEntry| {
        let name = fs::read_to_string(port.path().join("name"));
        name.is_ok_and(|name| name.trim_end() == NAME)
    };
    let port = ports.filter_map(Result::ok).find(is_ours)?;
    Some(Path::new("/dev").join(port.file_name()))
}

/// Switches a terminal (a serial line, the console) to raw mode, so that it changes no bytes.
fn make_raw(port: &File) -> io::Result<()> {
    let Ok(mut settings) = tcgetattr(port) else {
        return Ok(());
    };
    settings.make_raw();
    tcsetattr(port, OptionalActions::Now, &settings)?;
    Ok(())
}
