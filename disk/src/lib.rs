//! Access to the disks of a machine: images, volumes, filesystems and files.
//!
//! [`Disk`] -> [`Volume`] -> [`Filesystem`] -> [`File`]. Each type gives access to the layer below
//! it: [`Disk::device`] and [`Volume::device`] return a [`BlockRead`](diskfs_block::BlockRead),
//! [`Filesystem::driver`] returns an [`FsRead`](diskfs_vfs::FsRead). Only the stack knows the
//! drivers; a [`Fallback`] opens filesystems without a driver. [`guest`] assembles the directory
//! tree of a guest.

mod byte_count;
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

pub use diskfs_image::{
    BackgroundCopy, Format, Gate, OpenOptions, RemoteImage, RemoteImages, Share, StaleBase,
};

pub use byte_count::parse_bytes;
pub use cancellation::CancellationToken;
pub use error::{Error, ErrorKind, Result};
pub use file::File;
pub use file_device::FileDevice;
pub use filesystem::{Filesystem, Names, Node, SortedEntry, SortedWalk, Walk};
pub use stack::check;
pub use stack::{
    ChangedKeys, ChosenDriver, CodePage, Commits, Content, ContentClass, Disk, DiskId, DiskOptions,
    ExfatOptions, ExtKind, ExtOptions, Fallback, FallbackRequest, FatKind, FatOptions, FreeSpace,
    Group, KeyChange, KeyProof, KeyRemoval, Keys, LvmId, MdArray, NewFilesystem, NewIds, NewSpace,
    OverlaidImage, ResizeLayer, ResizeProgress, ResizeReport, ResizeRequest, ResizeStep,
    ResizeTool, ResizeVolume, Resized, RootReserve, ShrinkTo, SwapOptions, ToolUse, TreeUsage,
    UuidChange, Volume, WriteOptions, create_overlay, fitting_size, new_encryption,
};
pub use writable::{WritableFile, WritableFilesystem};
