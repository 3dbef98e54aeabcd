//! Conversion of file metadata into the attributes that FUSE expects.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diskfs_vfs::{Device, FileType, InodeNumber, Metadata, Timestamp};
use fuser::{FileAttr, INodeNo};

use super::id_map::IdMap;

/// The FUSE node id of the root, whatever its inode number on the image is.
const ROOT_NODE: u64 = INodeNo::ROOT.0;

/// The conversion between inode numbers of the image and FUSE node ids.
///
/// They are the same except for the root, whose node id must be 1. If the image has another file
/// with inode number 1, that file and the root swap numbers. `stat` shows the root's number as on
/// the image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nodes {
    root: InodeNumber,
}

impl Nodes {
    pub(super) fn new(root: InodeNumber) -> Self {
        Self { root }
    }

    pub(super) fn inode(self, node: INodeNo) -> InodeNumber {
        InodeNumber(self.swap(node.0))
    }

    pub(super) fn node(self, inode: InodeNumber) -> INodeNo {
        INodeNo(self.swap(inode.0))
    }

    /// Returns true if the kernel accepts this inode as a directory entry. It refuses the root and
    /// number 0: only a broken directory names them.
    pub(super) fn can_be_entry(self, inode: InodeNumber) -> bool {
        !matches!(self.node(inode).0, 0 | ROOT_NODE)
    }

    fn swap(self, number: u64) -> u64 {
        match number {
            ROOT_NODE => self.root.0,
            number if number == self.root.0 => ROOT_NODE,
            number => number,
        }
    }
}

/// Returns the FUSE attributes of a file, with `ino` as its number.
pub(super) fn attributes(metadata: &Metadata, ino: INodeNo, ids: &IdMap) -> FileAttr {
    FileAttr {
        ino,
        size: metadata.size_bytes,
        blocks: metadata.allocated_bytes.div_ceil(512),
        atime: system_time(metadata.accessed),
        mtime: system_time(metadata.modified),
        ctime: system_time(metadata.changed),
        crtime: UNIX_EPOCH,
        kind: kind(metadata.file_type),
        perm: metadata.permissions & 0o7777,
        nlink: metadata.links,
        uid: ids.uid.map(metadata.uid),
        gid: ids.gid.map(metadata.gid),
        rdev: metadata.device.map_or(0, encode_device),
        blksize: block_size(metadata.block_size),
        flags: 0,
    }
}

/// Returns the attributes of a name without a file. With `ino` 0 the kernel caches that the name
/// does not exist. With another `ino` it lists the name but refuses the attributes (no file is that
/// large), and requests them again when a program wants them: so that program gets the error.
pub(super) fn no_attributes(ino: INodeNo, file_type: Option<FileType>) -> FileAttr {
    FileAttr {
        ino,
        size: u64::MAX,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: kind(file_type.unwrap_or(FileType::Regular)),
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

pub(super) fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::Regular => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
    }
}

/// Converts a time for the host. A time that the host cannot represent becomes the epoch.
fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let seconds = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let nanoseconds = Duration::from_nanos(time.nanoseconds.min(999_999_999).into());
    seconds
        .and_then(|seconds| seconds.checked_add(nanoseconds))
        .unwrap_or(UNIX_EPOCH)
}

/// Converts a time that came from the kernel.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let (whole, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).map(|seconds| -seconds);
            match before.subsec_nanos() {
                0 => (seconds, 0),
                // The nanoseconds of a timestamp count forwards, also before 1970.
                fraction => (seconds.map(|s| s - 1), 1_000_000_000 - fraction),
            }
        }
    };
    Timestamp {
        seconds: whole.unwrap_or(i64::MAX),
        nanoseconds,
    }
}

/// Encodes a device number as the kernel's `new_encode_dev` does (`linux/kdev_t.h`): 12 bits of
/// major, 20 of minor.
fn encode_device(device: Device) -> u32 {
    let (major, minor) = (device.major, device.minor);
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
}

/// Decodes a device number as the kernel's `new_decode_dev` does.
pub(super) fn decode_device(number: u32) -> Device {
    Device {
        major: (number >> 8) & 0xfff,
        minor: (number & 0xff) | ((number >> 12) & 0xf_ff00),
    }
}

/// Rounds to a power of two, the only form in which the kernel keeps a block size.
fn block_size(bytes: u32) -> u32 {
    if bytes.is_power_of_two() { bytes } else { 4096 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_one_and_everything_else_itself() {
        let nodes = Nodes::new(InodeNumber(2));
        for (inode, node) in [(2, 1), (11, 11), (1, 2), (0, 0)] {
            assert_eq!(nodes.node(InodeNumber(inode)), INodeNo(node));
            assert_eq!(nodes.inode(INodeNo(node)), InodeNumber(inode));
        }
        assert!(nodes.can_be_entry(InodeNumber(11)));
        assert!(!nodes.can_be_entry(InodeNumber(2)));
        assert!(!nodes.can_be_entry(InodeNumber(0)));
        let plain = Nodes::new(InodeNumber(1));
        assert_eq!(plain.node(InodeNumber(1)), INodeNo(1));
    }

    #[test]
    fn times_before_the_epoch_and_at_the_ends_of_time() {
        let time = |seconds, nanoseconds| {
            system_time(Timestamp {
                seconds,
                nanoseconds,
            })
        };
        assert_eq!(time(0, 5), UNIX_EPOCH + Duration::from_nanos(5));
        assert_eq!(
            time(-1, 250_000_000),
            UNIX_EPOCH - Duration::from_millis(750)
        );
        let late = Duration::from_secs(0x3_7fff_ffff);
        assert_eq!(time(0x3_7fff_ffff, 0), UNIX_EPOCH + late);
        let _ = (time(i64::MIN, 0), time(i64::MAX, u32::MAX));
        for (seconds, nanoseconds) in [(0, 5), (-1, 250_000_000), (-5, 0), (0x3_7fff_ffff, 1)] {
            let there_and_back = timestamp(time(seconds, nanoseconds));
            assert_eq!(
                (there_and_back.seconds, there_and_back.nanoseconds),
                (seconds, nanoseconds)
            );
        }
    }

    #[test]
    fn device_numbers_are_encoded_as_the_kernel_does() {
        let device = |major, minor| encode_device(Device { major, minor });
        assert_eq!(device(1, 3), 0x103);
        assert_eq!(device(8, 0x12345), 0x1230_0845);
        assert_eq!(device(0xfff, 0xf_ffff), u32::MAX);
        let disk = Device {
            major: 259,
            minor: 0x12345,
        };
        assert_eq!(decode_device(encode_device(disk)), disk);
    }
}
