//! The disks of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diskfs_remote::server::MountDevice;
use diskfs_vfs::{Error, ErrorKind, Result};

use crate::waiting::pause;

/// The timeout for a device to appear.
const DEADLINE: Duration = Duration::from_secs(5);

/// Waits for a device and its size. Returns the device node.
pub(crate) fn find(device: &MountDevice) -> Result<PathBuf> {
    let node = wait_for(&device.name)?;
    wait_for_size(&node, device.size_bytes)?;
    Ok(node)
}

/// Waits for a device, given by its name in `/dev` or by its serial number. Returns the device
/// node.
fn wait_for(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(Error::new(ErrorKind::Invalid, "invalid device name"));
    }
    let began = Instant::now();
    loop {
        let node = Path::new("/dev").join(name);
        if node.exists() {
            return Ok(node);
        }
        if let Some(node) = by_serial(name) {
            return Ok(node);
        }
        if began.elapsed() > DEADLINE {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("no such device: `{name}`"),
            ));
        }
        pause(began);
    }
}

/// Waits until the kernel knows that the device has this size.
fn wait_for_size(device: &Path, size_bytes: u64) -> Result<()> {
    let (sectors, name) = (size_bytes >> 9, device.file_name().unwrap_or_default());
    let path = Path::new("/sys/class/block").join(name).join("size");
    let began = Instant::now();
    loop {
        let size = fs::read_to_string(&path);
        let is_it = size.is_ok_and(|size| size.trim_end().parse() == Ok(sectors));
        if is_it || size_bytes == 0 {
            return Ok(());
        }
        if began.elapsed() > DEADLINE {
            let reason = format!("{} does not have the requested size", device.display());
            return Err(Error::new(ErrorKind::Io, reason));
        }
        pause(began);
    }
}

/// Returns the device node of the disk with this serial number.
pub(crate) fn by_serial(serial: &str) -> Option<PathBuf> {
    let disks = fs::read_dir("/sys/block").ok()?;
    let has_serial = |disk: &fs::DirEntry| {
        let found = fs::read_to_string(disk.path().join("serial"));
        found.is_ok_and(|found| found.trim_end() == serial)
    };
    let disk = disks.filter_map(std::result::Result::ok).find(has_serial)?;
    Some(Path::new("/dev").join(disk.file_name())).filter(|node| node.exists())
}
