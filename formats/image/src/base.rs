//! Detection of changes to the backing file of an overlay.
//!
//! An overlay holds the clusters that differ from its backing file. If the backing file changes
//! later, the overlay shows a mix of two states, which is a damaged disk. So an overlay that we
//! create records the state of its backing file in its header (`qcow2::base_record`), and opening
//! it is refused if that has changed.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Stat};

/// The device and inode number of a file of the chain.
pub(crate) type FileId = (u64, u64);

/// The length and modification time of a file, which show whether it was written to. The inode
/// number is not part of it, because images are copied together with their backing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) size_bytes: u64,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

/// Hashes a name or a version with 64-bit FNV-1a. It only distinguishes them and does not resist attacks.
pub(crate) fn hash(name: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    name.iter().fold(BASIS, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    })
}

/// The nanoseconds of an identity without a time, which no file has.
const VERSION_NANOSECONDS: u32 = u32::MAX;

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            seconds: stat.st_mtime,
            nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        }
    }

    /// Returns the identity of the regular file at `path`, if there is one.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let file = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self {
            size_bytes: file.size(),
            seconds: file.mtime(),
            nanoseconds: u32::try_from(file.mtime_nsec()).unwrap_or(0),
        })
    }

    /// Returns the identity of a version of an image on another machine. It has no time: the fields
    /// are a hash of the version.
    pub(crate) fn of_version(version: &str, size_bytes: u64) -> Self {
        let hash = hash(version.as_bytes());
        Self {
            size_bytes,
            seconds: i64::from_ne_bytes(hash.to_ne_bytes()),
            nanoseconds: VERSION_NANOSECONDS,
        }
    }

    /// Describes what differs from the `recorded` identity; returns `None` if nothing does.
    pub(crate) fn change_since(&self, recorded: &Self) -> Option<String> {
        if self.size_bytes != recorded.size_bytes {
            let (now, then) = (self.size_bytes, recorded.size_bytes);
            return Some(format!("its size is {now} bytes and was {then}"));
        }
        let is_same = self.seconds == recorded.seconds && self.is_rounded_from(recorded);
        (!is_same).then(|| "it was modified later".to_owned())
    }

    /// Returns true if the nanoseconds equal the recorded ones, or a rounded form of them that a
    /// copy leaves: programs and filesystems keep microseconds, steps of 100 ns, or seconds.
    fn is_rounded_from(&self, recorded: &Self) -> bool {
        const STEPS: [u32; 4] = [1, 100, 1_000, 1_000_000_000];
        let left = |step| recorded.nanoseconds.checked_rem(step).unwrap_or(0);
        STEPS
            .into_iter()
            .any(|step| recorded.nanoseconds.saturating_sub(left(step)) == self.nanoseconds)
    }
}

/// The number of files to examine in the directory of an image that is about to be written.
const LOOKED_AT_MAX: usize = 512;
/// The number of overlays to list by name.
const TOLD_MAX: usize = 4;
/// The longest name of a backing file in bytes (specification, field `backing_file_size`).
const NAME_MAX_BYTES: u32 = 1023;

/// Returns the names of the overlays in the directory of an open image that use it as their backing
/// file. Only some hundreds of files are examined, and only their headers.
pub(crate) fn overlays_of(path: &Path, file: &diskfs_block::File) -> Vec<String> {
    find_overlays(path, file).unwrap_or_default()
}

fn find_overlays(path: &Path, file: &diskfs_block::File) -> Option<Vec<String>> {
    let stat = rustix::fs::fstat(file).ok()?;
    let id = (stat.st_dev, stat.st_ino);
    let real = path.canonicalize().ok()?;
    let dir = real.parent()?;
    let entries = dir.read_dir().ok()?.take(LOOKED_AT_MAX).flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let overlays = files
        .map(|entry| entry.path())
        .filter(|file| *file != real && is_overlay_of(file, &real, id).unwrap_or(false));
    let names = overlays.filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    Some(names.collect())
}

/// Returns a warning if a disk is about to be written while overlays use it as their backing file.
pub(crate) fn overlays_warning(mut names: Vec<String>) -> Option<String> {
    names.sort_unstable();
    let more = names.len().saturating_sub(TOLD_MAX);
    names.truncate(TOLD_MAX);
    let shown: Vec<String> = names
        .iter()
        .map(|name| name.escape_debug().to_string())
        .collect();
    let told = shown.join(", ");
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!names.is_empty()).then(|| {
        format!(
            "is the backing file of {told}{more}: writing to it damages the disks of those \
             overlays; write to a new overlay instead"
        )
    })
}

/// Returns true if `file` is a qcow2 image whose backing file is `base`.
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
    // Names with another file name or directory are not resolved: they come from an untrusted
    // header.
    let may_be = name.file_name() == base.file_name() || name.components().count() == 1;
    let found: PathBuf = file.parent()?.join(name);
    let is_it = |found: std::fs::Metadata| (found.dev(), found.ino()) == id;
    Some(may_be && found.metadata().is_ok_and(is_it))
}

/// Returns the backing file name from the header of a qcow2 image.
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
