//! The machine's state and description, on which the figures depend.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::Advice;

/// Fails unless this process can mount and drop caches.
pub(crate) fn require_root() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "mounting and /proc/sys/vm/drop_caches need root; run this program as root"
    );
    Ok(())
}

/// The caches that are dropped before a cold measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Cold {
    /// All caches: `sync`, then 3 to `/proc/sys/vm/drop_caches`. Programs and libraries must be
    /// read again, too.
    Machine,
    /// The image's pages, by `POSIX_FADV_DONTNEED`, and all dentries and inodes, by 2 to
    /// `/proc/sys/vm/drop_caches`. The cache of a mount is dropped with the mount, because each
    /// cold measurement makes a new one. The machine's other programs stay cached.
    Image,
}

/// Drops the machine's caches of the images.
pub(crate) fn drop_caches(cold: Cold, images: &[&Path]) -> Result<()> {
    for image in images {
        let file = fs::File::open(image).with_context(|| image.display().to_string())?;
        // Pages that are not yet written back are not dropped.
        rustix::fs::fdatasync(&file)?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    let what = match cold {
        Cold::Machine => {
            rustix::fs::sync();
            "3"
        }
        Cold::Image => "2",
    };
    fs::write("/proc/sys/vm/drop_caches", what).context("writing /proc/sys/vm/drop_caches")
}

/// Reads every allocated byte of `image`, so that the page cache contains it.
pub(crate) fn fill_page_cache(image: &Path) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(image).with_context(|| image.display().to_string())?;
    let mut buf = vec![0; 1 << 20];
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data))?;
        at = data;
        while at < hole {
            let got = file.read_at(&mut buf, at)?;
            ensure!(
                got > 0,
                "{}: unexpected end of file at byte {at}",
                image.display()
            );
            at += u64::try_from(got)?;
        }
    }
    Ok(())
}

/// Returns one line that describes this machine.
pub(crate) fn describe() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = read_trimmed("/proc/sys/kernel/osrelease");
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| kib_field(&text, "MemTotal:"))
        .map_or(0, |kib| kib.div_ceil(1 << 20));
    let load = read_trimmed("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cpus} processors, {memory} GiB of memory, kernel {kernel}, load {load} at the end")
}

/// Returns the value of a field of `/proc/meminfo` or `/proc/PID/status` in kB.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn read_trimmed(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "?".into(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kib_fields_are_found_by_their_whole_name() {
        let text = "Name:\tx\nVmPeak:\t  200 kB\nVmHWM:\t  1234 kB\n";
        assert_eq!(kib_field(text, "VmHWM:"), Some(1234));
        assert_eq!(kib_field(text, "VmRSS:"), None);
    }
}
