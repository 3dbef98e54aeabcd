//! The metadata of a file.

use std::fmt;

/// The inode number of a file: opaque, but stable while the filesystem is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNumber(pub u64);

impl fmt::Display for InodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory of files.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A FIFO (named pipe).
    Fifo,
    /// A Unix socket.
    Socket,
}

impl FileType {
    /// Returns the bits of the type in `st_mode` (stat(2), `S_IFMT`).
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

    /// Returns the type in `st_mode`, or `None` if it is invalid.
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

    /// Returns the letter that `ls -l` prints.
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

/// A point in time: seconds since 1970 (negative before that) and nanoseconds after that second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below 1 000 000 000.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Returns the present time of the host's clock.
    pub fn now() -> Self {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let since = since.unwrap_or_default();
        Self {
            seconds: since.as_secs().try_into().unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

/// The number of a device node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// The major number, which selects the driver.
    pub major: u32,
    /// The minor number, which selects the driver's device.
    pub minor: u32,
}

/// The attributes of a file besides the mode (chattr(1)) that readers use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent bit of the inode"
)]
pub struct FileFlags {
    /// `i`: the file can't be changed, removed or linked to.
    pub immutable: bool,
    /// `a`: the file can only be appended to.
    pub append_only: bool,
    /// `E`: contents (names, in a directory) are encrypted.
    pub encrypted: bool,
    /// `V`: the file is protected by fs-verity.
    pub verity: bool,
    /// `F`: look-ups in this directory ignore case.
    pub casefold: bool,
    /// `d`: dump(8) skips the file.
    pub no_dump: bool,
}

impl FileFlags {
    /// Returns the flags as bits of linux/fs.h, as `FS_IOC_GETFLAGS` does.
    pub fn to_bits(mut self) -> u32 {
        BITS.iter()
            .filter_map(|(bit, flag)| flag(&mut self).then_some(bit))
            .sum()
    }

    /// Returns the flags of these bits; `None` if others are set.
    pub fn from_bits(mut bits: u32) -> Option<Self> {
        let mut flags = Self::default();
        for (bit, flag) in BITS {
            *flag(&mut flags) = bits & bit != 0;
            bits &= !bit;
        }
        (bits == 0).then_some(flags)
    }
}

/// A function that selects a flag.
type Flag = fn(&mut FileFlags) -> &mut bool;

/// The bit of each flag in linux/fs.h.
const BITS: [(u32, Flag); 6] = [
    (0x0000_0010, |flags| &mut flags.immutable),
    (0x0000_0020, |flags| &mut flags.append_only),
    (0x0000_0040, |flags| &mut flags.no_dump),
    (0x0000_0800, |flags| &mut flags.encrypted),
    (0x0010_0000, |flags| &mut flags.verity),
    (0x4000_0000, |flags| &mut flags.casefold),
];

/// The attributes of a file that lsattr(1) shows and chattr(1) changes: all that the filesystem
/// has, including those that only it interprets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// The flags as bits of linux/fs.h (`FS_IOC_GETFLAGS`).
    pub flags: u32,
    /// The project ID of the file, for quotas.
    pub project: u32,
}

/// The metadata of a file, as stat(2) returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The inode number.
    pub inode: InodeNumber,
    /// The inode generation: it distinguishes two files that had the same inode number at different
    /// times.
    pub generation: u32,
    /// The type of the file.
    pub file_type: FileType,
    /// The permissions with set-user-ID, set-group-ID and sticky: the low 12 bits of `st_mode`.
    pub permissions: u16,
    /// The number of hard links.
    pub links: u32,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The size in bytes; for a symlink the length of its target.
    pub size_bytes: u64,
    /// The number of allocated bytes: `st_blocks` times 512.
    pub allocated_bytes: u64,
    /// The time of the last access.
    pub accessed: Timestamp,
    /// The time of the last modification of the contents.
    pub modified: Timestamp,
    /// The time of the last change of the inode.
    pub changed: Timestamp,
    /// The time of creation, if the filesystem stores it.
    pub created: Option<Timestamp>,
    /// The number of a device node.
    pub device: Option<Device>,
    /// The filesystem's block size in bytes, `st_blksize`.
    pub block_size: u32,
    /// The attributes besides the mode.
    pub flags: FileFlags,
}

impl Metadata {
    /// Returns `st_mode`: type and permissions.
    pub fn mode(&self) -> u32 {
        self.file_type.mode_bits() | u32::from(self.permissions & 0o7777)
    }

    /// Returns true for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Returns the permissions that remain when root changes the owner with chown(2): a program
    /// must not run with the rights of its new owner. Set-group-ID without group execute permission
    /// means mandatory locking, and remains.
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
