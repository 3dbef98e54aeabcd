//! How much there may be of anything.

use super::frame::HEAD_BYTES;

/// The bytes behind a message: as much as the kernel's FUSE asks for at once.
pub const MAX_BULK: usize = 1 << 20;

/// How many requests may wait for answers at once: each has a slot, whose index is the lower half of its
/// number. FUSE asks with a handful of threads, and each reads ahead at most a few.
pub const MAX_IN_FLIGHT: usize = 64;

/// The area that both ends see besides the stream, where they have one: so many bytes for each slot, in
/// which the bulk of its request may be, or of the answer.
pub const BULK_AREA_BYTES: usize = MAX_IN_FLIGHT * MAX_BULK;

/// The serial number of the disk that is the area, in a machine that has it as one.
pub const BULK_AREA_SERIAL: &str = "diskfs.area";

/// Bulk that is shorter goes through the stream.
pub const MIN_APART: usize = 16 << 10;

/// A whole frame.
pub const MAX_FRAME: usize = MAX_BULK + (64 << 10);

/// The message of a frame: what a frame has besides the most of bulk, less its head.
pub const MAX_MESSAGE: usize = (64 << 10) - HEAD_BYTES;

/// A name in a directory. 255 is what Linux has room for; of other systems' filesystems some have
/// 255 characters, which are up to 4 bytes each.
pub const MAX_NAME: usize = 1020;

/// The target of a symlink: `PATH_MAX` of Linux, with the NUL that it counts.
pub const MAX_TARGET: usize = 4096;

/// The path of a subvolume: each that it lies within adds at most a `PATH_MAX`.
pub const MAX_SUBVOLUME_PATH: usize = 64 << 10;

/// The name of an extended attribute: `XATTR_NAME_MAX` of Linux.
pub const MAX_XATTR_NAME: usize = 255;

/// The value of an extended attribute, and all names of a file's attributes with a byte between
/// them: `XATTR_SIZE_MAX` and `XATTR_LIST_MAX` of Linux.
pub const MAX_XATTR: usize = 64 << 10;

/// The entries of a directory in one answer, in bytes.
pub const MAX_LIST: usize = 128 << 10;

/// The extents of a file in one answer. Each takes up to 26 bytes.
pub const MAX_EXTENTS: usize = 1024;

/// What is taken of a program's output at once.
pub const MAX_OUTPUT: usize = 256 << 10;

/// How many programs may run at once. Two requests of each may wait for it for as long as it likes, and
/// those of filesystems must go on beside them.
pub const MAX_PROGRAMS: usize = 16;

/// A text that explains something.
pub const MAX_REASON: usize = 1024;
