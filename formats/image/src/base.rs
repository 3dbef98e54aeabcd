//! The image behind an overlay: whether it is as it was when the overlay was made.
//!
//! An overlay holds the clusters that differ from its base. When the base changes, the overlay shows
//! clusters of two states, which is a damaged disk. So an overlay that is made here has in its header
//! what its base was like (`qcow2::base_record`), and is refused when that has changed.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Stat};

/// A file of the chain as its device and inode.
pub(crate) type FileId = (u64, u64);

/// What tells whether a file was written to: its length and when it was modified. Not its inode, as
/// images are copied with what is behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) size_bytes: u64,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            seconds: stat.st_mtime,
            nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        }
    }

    /// Of the regular file at `path`, if there is one.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let file = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self {
            size_bytes: file.size(),
            seconds: file.mtime(),
            nanoseconds: u32::try_from(file.mtime_nsec()).unwrap_or(0),
        })
    }

    /// What differs from how the file was when it was `recorded`; `None` when nothing does.
    pub(crate) fn change_since(&self, recorded: &Self) -> Option<String> {
        if self.size_bytes != recorded.size_bytes {
            let (now, then) = (self.size_bytes, recorded.size_bytes);
            return Some(format!("it has {now} bytes, and had {then}"));
        }
        let is_same = self.seconds == recorded.seconds && self.is_rounded_from(recorded);
        (!is_same).then(|| "it was modified since".to_owned())
    }

    /// Whether the nanoseconds are those that were recorded, or what a copy leaves of them: programs
    /// and filesystems keep microseconds, steps of 100 ns, or seconds.
    fn is_rounded_from(&self, recorded: &Self) -> bool {
        const STEPS: [u32; 4] = [1, 100, 1_000, 1_000_000_000];
        let left = |step| recorded.nanoseconds.checked_rem(step).unwrap_or(0);
        STEPS
            .into_iter()
            .any(|step| recorded.nanoseconds.saturating_sub(left(step)) == self.nanoseconds)
    }
}

/// Files that are looked at in the directory of an image that is about to be written.
const LOOKED_AT_MAX: usize = 512;
/// Overlays that are told by name.
const TOLD_MAX: usize = 4;
/// The longest name of a backing file (specification, field `backing_file_size`).
const NAME_MAX_BYTES: u32 = 1023;

/// The warning for a disk that is about to be written while overlays in its directory name it as
/// their base. Only some hundreds of files are looked at, and only their headers.
pub(crate) fn overlays_warning(path: &Path, id: FileId) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let dir = real.parent()?;
    let entries = dir.read_dir().ok()?.take(LOOKED_AT_MAX).flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let overlays = files
        .map(|entry| entry.path())
        .filter(|file| *file != real && is_overlay_of(file, &real, id).unwrap_or(false));
    let mut names: Vec<String> = overlays
        .filter_map(|file| {
            Some(
                file.file_name()?
                    .to_string_lossy()
                    .escape_debug()
                    .to_string(),
            )
        })
        .collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(TOLD_MAX);
    names.truncate(TOLD_MAX);
    let told = names.join(", ");
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!names.is_empty()).then(|| {
        format!(
            "is the backing file of {told}{more}: writing to it damages the disks that those \
             overlays show; write to an overlay of its own instead"
        )
    })
}

/// Whether `file` is a qcow2 image whose backing file is `base`.
fn is_overlay_of(file: &Path, base: &Path, id: FileId) -> Option<bool> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).ok()?;
    let image = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(file)
        .ok()?;
    let name = backing_name(&image)?;
    let name = Path::new(OsStr::from_bytes(&name));
    // Other names are not looked up: they are somebody else's word.
    let may_be = name.file_name() == base.file_name() || name.components().count() == 1;
    let found: PathBuf = file.parent()?.join(name);
    let is_it = |found: std::fs::Metadata| (found.dev(), found.ino()) == id;
    Some(may_be && found.metadata().is_ok_and(is_it))
}

/// The name of the backing file that the header has, if it is that of a qcow2 image.
fn backing_name(image: &File) -> Option<Vec<u8>> {
    let mut head = [0; 20];
    image.read_exact_at(&mut head, 0).ok()?;
    let (at, len) = (head.get(8..16)?, head.get(16..20)?);
    let at = u64::from_be_bytes(at.try_into().ok()?);
    let len = u32::from_be_bytes(len.try_into().ok()?);
    if !head.starts_with(b"QFI\xfb") || at == 0 || len > NAME_MAX_BYTES {
        return None;
    }
    let mut name = vec![0; usize::try_from(len).ok()?];
    image.read_exact_at(&mut name, at).ok()?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_round_the_time() {
        let recorded = Identity {
            size_bytes: 10,
            seconds: 1_000,
            nanoseconds: 123_456_789,
        };
        for nanoseconds in [123_456_789, 123_456_700, 123_456_000, 0] {
            let now = Identity {
                nanoseconds,
                ..recorded
            };
            assert_eq!(now.change_since(&recorded), None, "{nanoseconds}");
        }
        for (seconds, nanoseconds) in [(1_000, 123_456_788), (1_001, 0), (999, 123_456_789)] {
            let now = Identity {
                seconds,
                nanoseconds,
                ..recorded
            };
            assert!(
                now.change_since(&recorded).is_some(),
                "{seconds} {nanoseconds}"
            );
        }
        let longer = Identity {
            size_bytes: 11,
            ..recorded
        };
        assert!(longer.change_since(&recorded).unwrap().contains("11 bytes"));
    }
}
