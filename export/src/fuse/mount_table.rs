//! The kernel's mount table (`proc_pid_mountinfo(5)`).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The device number of a mounted filesystem: unique while it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MountId {
    /// The major number of the anonymous device.
    pub major: u32,
    /// The minor number of the anonymous device.
    pub minor: u32,
}

impl fmt::Display for MountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for MountId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once(':');
        let parsed = numbers.and_then(|(major, minor)| {
            Some(Self {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| format!("invalid device number `{text}`: expected MAJOR:MINOR"))
    }
}

/// An entry of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The device number of the filesystem.
    pub id: MountId,
    /// The mount point.
    pub mountpoint: PathBuf,
    /// The filesystem type: `ext4`, `fuse.diskfs`.
    pub kind: String,
    /// The source of the mount; for our mounts, the path of the image.
    pub source: OsString,
    /// True if the filesystem is mounted read-write, even at a read-only mount point.
    pub is_writable: bool,
}

/// The filesystem type of our mounts.
pub const KIND: &str = "fuse.diskfs";

/// Returns the mounts that this process sees, in the order in which they were made.
///
/// # Errors
/// Fails if `/proc` is not mounted.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    mounts_of(Path::new("/proc/self"))
}

/// Returns the mounts that a process sees, given its directory in `/proc`.
pub(super) fn mounts_of(process: &Path) -> io::Result<Vec<MountEntry>> {
    let table = fs::read(process.join("mountinfo"))?;
    Ok(table
        .split(|&byte| byte == b'\n')
        .filter_map(parse)
        .collect())
}

/// Returns the topmost mount at `mountpoint` (an absolute path without symlinks).
///
/// # Errors
/// Fails if `/proc` is not mounted.
pub fn mounted_at(mountpoint: &Path) -> io::Result<Option<MountEntry>> {
    let last = |mount: &MountEntry| mount.mountpoint == mountpoint;
    Ok(mounts()?.into_iter().rfind(last))
}

/// Parses a line such as `36 35 98:0 /root /mountpoint rw,noatime master:1 - ext3 /dev/sda1 rw`.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.nth(2)?).ok()?.parse().ok()?;
    let mountpoint = unescape(fields.nth(1)?);
    // A dash ends the optional fields, of which there may be any number.
    let mut fields = fields.skip_while(|&field| field != b"-").skip(1);
    Some(MountEntry {
        id,
        mountpoint: mountpoint.into(),
        kind: String::from_utf8_lossy(unescape(fields.next()?).as_bytes()).into_owned(),
        source: unescape(fields.next()?),
        is_writable: fields.next()?.split(|&byte| byte == b',').next() == Some(b"rw"),
    })
}

/// Decodes the octal escapes of blanks, newlines and backslashes.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let byte = digits.and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes)
}

/// Returns the text of a program's name for a message; invalid UTF-8 is replaced.
pub(super) fn lossy(text: &OsStr) -> String {
    String::from_utf8_lossy(text.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lines_of_the_kernel() {
        let line =
            br"36 35 0:98 / /mnt/a\040b\134c rw,noatime master:1 shared:2 - fuse.diskfs /i\012 rw";
        let entry = parse(line).unwrap();
        assert_eq!(entry.id.to_string(), "0:98");
        assert_eq!(entry.mountpoint, Path::new("/mnt/a b\\c"));
        assert_eq!(entry.kind, KIND);
        assert_eq!(entry.source, "/i\n");
        assert!(entry.is_writable);
        let read_only = parse(b"36 35 0:98 / /mnt rw - fuse.diskfs /i ro,user_id=0").unwrap();
        assert!(!read_only.is_writable);
    }

    #[test]
    fn odd_lines_are_left_out() {
        for line in [
            "",
            "1 2 3",
            "36 35 x:0 / /m rw - ext4 s rw",
            "36 35 0:9 / /m rw",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(unescape(br"a\04"), r"a\04");
        assert_eq!(unescape(br"\999"), r"\999");
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(mounted_at(Path::new("/")).unwrap().is_some());
        assert_eq!(mounted_at(Path::new("/no/such")).unwrap(), None);
    }

    #[test]
    fn ids_are_read_back() {
        let id = MountId { major: 0, minor: 7 };
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("7".parse::<MountId>().is_err());
    }
}
