//! What a filesystem knows about a file besides its contents.

use std::fmt;

/// A file's number within its filesystem: opaque, but stable while the filesystem is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNumber(pub u64);

impl fmt::Display for InodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A FIFO.
    Fifo,
    /// A Unix socket.
    Socket,
}

impl FileType {
    /// The type's bits of `st_mode` (stat(2), `S_IFMT`).
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharacterDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The type that `st_mode` tells, if it tells one.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        match mode & 0o170_000 {
            0o010_000 => Some(Self::Fifo),
            0o020_000 => Some(Self::CharacterDevice),
            0o040_000 => Some(Self::Directory),
            0o060_000 => Some(Self::BlockDevice),
            0o100_000 => Some(Self::Regular),
            0o120_000 => Some(Self::Symlink),
            0o140_000 => Some(Self::Socket),
            _ => None,
        }
    }

    /// The letter that `ls -l` prints.
    pub const fn letter(self) -> char {
        match self {
            Self::Fifo => 'p',
            Self::CharacterDevice => 'c',
            Self::Directory => 'd',
            Self::BlockDevice => 'b',
            Self::Regular => '-',
            Self::Symlink => 'l',
            Self::Socket => 's',
        }
    }
}

/// A point in time: seconds since 1970 (before it, negative) and nanoseconds after that second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below 1 000 000 000.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// The time on the host's clock.
    pub fn now() -> Self {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let since = since.unwrap_or_default();
        Self {
            seconds: since.as_secs().try_into().unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

/// A device node's number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// The driver.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

/// Attributes besides the mode (chattr(1)), as far as readers ask for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent bit of the inode"
)]
pub struct FileFlags {
    /// `i`: can't be changed, removed or linked to.
    pub immutable: bool,
    /// `a`: can only be appended to.
    pub append_only: bool,
    /// `E`: contents (of a directory: names) are encrypted.
    pub encrypted: bool,
    /// `V`: protected by fs-verity.
    pub verity: bool,
    /// `F`: names in this directory are looked up without regard to case.
    pub casefold: bool,
    /// `d`: left out by dump(8).
    pub no_dump: bool,
}

impl FileFlags {
    /// The flags by their bits in linux/fs.h, as `FS_IOC_GETFLAGS` tells them.
    pub fn to_bits(mut self) -> u32 {
        BITS.iter()
            .filter_map(|(bit, flag)| flag(&mut self).then_some(bit))
            .sum()
    }

    /// The flags that these bits stand for; `None` if there are others among them.
    pub fn from_bits(mut bits: u32) -> Option<Self> {
        let mut flags = Self::default();
        for (bit, flag) in BITS {
            *flag(&mut flags) = bits & bit != 0;
            bits &= !bit;
        }
        (bits == 0).then_some(flags)
    }
}

/// Finds a flag among all.
type Flag = fn(&mut FileFlags) -> &mut bool;

/// Each flag by its bit in linux/fs.h.
const BITS: [(u32, Flag); 6] = [
    (0x0000_0010, |flags| &mut flags.immutable),
    (0x0000_0020, |flags| &mut flags.append_only),
    (0x0000_0040, |flags| &mut flags.no_dump),
    (0x0000_0800, |flags| &mut flags.encrypted),
    (0x0010_0000, |flags| &mut flags.verity),
    (0x4000_0000, |flags| &mut flags.casefold),
];

/// A file's attributes as lsattr(1) shows and chattr(1) changes them: all that the filesystem has,
/// also those without a meaning to anybody else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// The flags by their bits in linux/fs.h (`FS_IOC_GETFLAGS`).
    pub flags: u32,
    /// The project that the file is counted for.
    pub project: u32,
}

/// What `stat` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The file's number.
    pub inode: InodeNumber,
    /// Its generation: two files that had the same number at different times differ in it.
    pub generation: u32,
    /// What kind of file it is.
    pub file_type: FileType,
    /// Permissions with set-user-id, set-group-id and sticky: the low 12 bits of `st_mode`.
    pub permissions: u16,
    /// How many names it has.
    pub links: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Size in bytes; of a symlink, its target's length.
    pub size_bytes: u64,
    /// Bytes that are allocated for it: `st_blocks` times 512.
    pub allocated_bytes: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Contents last changed.
    pub modified: Timestamp,
    /// Inode last changed.
    pub changed: Timestamp,
    /// Created, where the filesystem keeps it.
    pub created: Option<Timestamp>,
    /// The number of a device node.
    pub device: Option<Device>,
    /// The filesystem's block size in bytes, `st_blksize`.
    pub block_size: u32,
    /// Attributes besides the mode.
    pub flags: FileFlags,
}

impl Metadata {
    /// `st_mode`: type and permissions.
    pub fn mode(&self) -> u32 {
        self.file_type.mode_bits() | u32::from(self.permissions & 0o7777)
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Returns the permissions that chown(2) leaves when root changes the owner: a program must not run with the
    /// rights of its new owner. Set-group-id without execution by the group means locking, and stays.
    pub fn permissions_after_chown(&self) -> u16 {
        match self.file_type {
            FileType::Regular if self.permissions & 0o010 != 0 => self.permissions & !0o6000,
            FileType::Regular => self.permissions & !0o4000,
            _ => self.permissions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_flags_go_both_ways() {
        let flags = FileFlags {
            append_only: true,
            casefold: true,
            ..FileFlags::default()
        };
        assert_eq!(flags.to_bits(), 0x4000_0020);
        assert_eq!(FileFlags::from_bits(0x4000_0020), Some(flags));
        assert_eq!(FileFlags::from_bits(0x0008_0000), None, "extents");
    }

    #[test]
    fn mode_bits_go_both_ways() {
        for mode in (0..16).map(|n| n << 12) {
            if let Some(t) = FileType::from_mode(mode | 0o644) {
                assert_eq!(t.mode_bits(), mode);
            }
        }
        assert_eq!(FileType::from_mode(0o644), None);
    }
}
