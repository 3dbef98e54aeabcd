//! The limits of the protocol.

use super::frame::HEAD_BYTES;

/// The maximum length of bulk: as much as the kernel's FUSE requests at once.
pub const MAX_BULK: usize = 1 << 20;

/// The maximum number of requests in flight: each has a slot, whose index is the lower half of its
/// number. FUSE has a handful of threads, each with at most a few requests of read-ahead.
pub const MAX_IN_FLIGHT: usize = 64;

/// The length of the area that both sides may share besides the stream: each slot has a piece for
/// the bulk of its request or answer.
pub const BULK_AREA_BYTES: usize = MAX_IN_FLIGHT * MAX_BULK;

/// The serial number of the disk through which a machine sees the area.
pub const BULK_AREA_SERIAL: &str = "diskfs.area";

/// The minimum length of bulk that goes through the area; shorter bulk goes through the stream.
pub const MIN_APART: usize = 16 << 10;

/// The maximum length of a frame.
pub const MAX_FRAME: usize = MAX_BULK + (64 << 10);

/// The maximum length of a message: the frame without the largest bulk and without the header.
pub const MAX_MESSAGE: usize = (64 << 10) - HEAD_BYTES;

/// The maximum length of a file name. Linux allows 255 bytes; filesystems of other systems allow up
/// to 255 characters, of up to 4 bytes each.
pub const MAX_NAME: usize = 1020;

/// The maximum length of a symlink's target: `PATH_MAX` of Linux, including its NUL.
pub const MAX_TARGET: usize = 4096;

/// The maximum length of a subvolume's path: each enclosing subvolume adds at most `PATH_MAX`.
pub const MAX_SUBVOLUME_PATH: usize = 64 << 10;

/// The maximum length of an extended attribute's name: `XATTR_NAME_MAX` of Linux.
pub const MAX_XATTR_NAME: usize = 255;

/// The maximum length of an extended attribute's value, and of all names of a file's attributes
/// with separators: `XATTR_SIZE_MAX` and `XATTR_LIST_MAX` of Linux.
pub const MAX_XATTR: usize = 64 << 10;

/// The maximum length of the directory entries in an answer, in bytes.
pub const MAX_LIST: usize = 128 << 10;

/// The maximum number of small files that one request reads.
pub const MAX_FILE_READS: usize = 64;

/// The maximum number of extents in an answer. Each takes up to 26 bytes.
pub const MAX_EXTENTS: usize = 1024;

/// The maximum length of a program's output in an answer.
pub const MAX_OUTPUT: usize = 256 << 10;

/// The maximum number of running programs. Two requests of each may wait without limit, and
/// requests of filesystems must still be possible beside them.
pub const MAX_PROGRAMS: usize = 16;

/// The maximum length of an error's reason.
pub const MAX_REASON: usize = 1024;
