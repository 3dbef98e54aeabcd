//! What is mounted, as the kernel tells it (`proc_pid_mountinfo(5)`).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A mounted filesystem's device number: tells it from all others while it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MountId {
    /// Of the anonymous device.
    pub major: u32,
    /// Of the anonymous device.
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
        parsed.ok_or_else(|| format!("`{text}` is no device number"))
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Which filesystem it is.
    pub id: MountId,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// `ext4`, `fuse.diskfs`.
    pub kind: String,
    /// What is mounted: of ours, the image.
    pub source: OsString,
}

/// The filesystem type that our mounts have.
pub const KIND: &str = "fuse.diskfs";

/// Everything that is mounted, in the order in which it was.
///
/// # Errors
/// When `/proc` is not there.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    mounts_of(Path::new("/proc/self"))
}

/// Those that a process sees, by its directory in `/proc`.
pub(super) fn mounts_of(process: &Path) -> io::Result<Vec<MountEntry>> {
    let table = fs::read(process.join("mountinfo"))?;
    Ok(table
        .split(|&byte| byte == b'\n')
        .filter_map(parse)
        .collect())
}

/// What is mounted at `mountpoint` (an absolute path without symlinks), on top if there is more.
///
/// # Errors
/// When `/proc` is not there.
pub fn mounted_at(mountpoint: &Path) -> io::Result<Option<MountEntry>> {
    let last = |mount: &MountEntry| mount.mountpoint == mountpoint;
    Ok(mounts()?.into_iter().rfind(last))
}

/// `36 35 98:0 /root /mountpoint rw,noatime master:1 - ext3 /dev/sda1 rw`
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.nth(2)?).ok()?.parse().ok()?;
    let mountpoint = unescape(fields.nth(1)?);
    // Any number of optional fields ends with a dash.
    let mut fields = fields.skip_while(|&field| field != b"-").skip(1);
    Some(MountEntry {
        id,
        mountpoint: mountpoint.into(),
        kind: String::from_utf8_lossy(unescape(fields.next()?).as_bytes()).into_owned(),
        source: unescape(fields.next()?),
    })
}

/// Blanks, newlines and backslashes are written as `\` and three octal digits.
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

/// The name of a program in a message, for those without a name as well.
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
