//! Counting of the bytes that a mount reads from its image.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command;

/// The source of the byte counter of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meter {
    /// The server's `rchar`: the bytes that it read from the image file, from the page cache or
    /// from the disk. The FUSE requests that it reads count, too, about 80 bytes each.
    Process(u32),
    /// The sectors that were requested from a loop device, including the kernel's read-ahead.
    LoopDevice(String),
}

impl Meter {
    /// Returns the meter of the loop device that is mounted at `point`.
    pub(crate) fn loop_device_of(point: &Path) -> Result<Self> {
        let text = fs::read_to_string("/proc/self/mountinfo")?;
        let name = loop_device_in(&text, &point.to_string_lossy());
        let name = name.with_context(|| format!("no loop device at {}", point.display()))?;
        Ok(Self::LoopDevice(name.to_owned()))
    }

    /// Returns the bytes read so far.
    pub(crate) fn read_bytes(&self) -> Result<u64> {
        match self {
            Self::Process(pid) => command::rchar(*pid),
            Self::LoopDevice(name) => {
                let path = format!("/sys/block/{name}/stat");
                let text = fs::read_to_string(&path).with_context(|| path.clone())?;
                let sectors = text.split_whitespace().nth(2).context(path)?;
                Ok(sectors.parse::<u64>()? * 512)
            }
        }
    }
}

/// Returns the name of the device in the `mountinfo` line of `point` (see proc(5)).
fn loop_device_in<'a>(mountinfo: &'a str, point: &str) -> Option<&'a str> {
    let line = mountinfo
        .lines()
        .rfind(|line| line.split(' ').nth(4) == Some(point))?;
    let (_, source) = line.split_once(" - ")?;
    source.split(' ').nth(1)?.strip_prefix("/dev/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_mount_of_a_point_counts() {
        let text = "30 1 0:1 / /mnt rw - tmpfs tmpfs rw\n\
                    31 30 7:3 / /mnt ro,relatime shared:5 - ext4 /dev/loop3 ro\n";
        assert_eq!(loop_device_in(text, "/mnt"), Some("loop3"));
        assert_eq!(loop_device_in(text, "/other"), None);
    }
}
