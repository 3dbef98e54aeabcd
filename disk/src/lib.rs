//! A machine's disks, down to its files: images, volumes and filesystems put together.
//!
//! [`Disk`] -> [`Volume`] -> [`Filesystem`] -> [`File`]. Each gives access to what it is made of:
//! [`Disk::device`] and [`Volume::device`] are [`BlockRead`](diskfs_block::BlockRead)s, [`Filesystem::driver`] is
//! an [`FsRead`](diskfs_vfs::FsRead). The stack is the only place that knows the drivers; what has none goes to a
//! [`Fallback`]. [`guest`] puts a guest's own tree together.

mod cancellation;
mod error;
mod file;
mod file_device;
mod filesystem;
pub mod guest;
mod stack;
mod system_root;
pub mod time;
mod writable;

pub use diskfs_image::{Format, Gate, OpenOptions, Share, StaleBase};

pub use cancellation::CancellationToken;
pub use error::{Error, ErrorKind, Result};
pub use file::File;
pub use file_device::FileDevice;
pub use filesystem::{Filesystem, Names, Node, SortedEntry, SortedWalk, Walk};
pub use stack::{
    CodePage, Commits, Content, ContentClass, Disk, DiskId, DiskOptions, ExfatOptions, Fallback,
    FatKind, FatOptions, Group, Keys, LvmId, MdArray, NewFilesystem, NewIds, RootReserve,
    SwapOptions, UuidChange, Volume, Wanted, WriteOptions,
};
pub use writable::{WritableFile, WritableFilesystem};
