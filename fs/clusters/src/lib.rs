//! The common part of FAT and exFAT: reading, writing, and the order in which changes reach the
//! device. In both filesystems, files are chains of clusters, directory entries of 32 bytes hold a
//! file's name, size and times, and a file's inode number is the place of its entry.
//!
//! Each driver implements [`Format`] for its structures on the device. [`ReadOnly`] and
//! [`Writable`] turn a `Format` into a filesystem.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod allocation;
mod chain;
mod committer;
mod directory;
mod dos_time;
mod error;
mod format;
mod geometry;
mod name;
mod numbers;
mod place;
mod read_only;
mod reading;
pub mod resize;
mod sectors;
mod table;
mod volume;
mod writable;
mod writer;

pub use allocation::{Allocation, count_used};
pub use chain::{Chain, Cluster, Run};
pub use directory::{Directory, Name, for_each_entry};
pub use dos_time::DosTime;
pub use error::{Corrupt, device_failed};
pub use format::{FileRecord, Format};
pub use geometry::{Geometry, Root};
pub use name::{MAX_NAME_UNITS, NewName};
pub use place::{ENTRY_BYTES, ENTRY_LEN, EntryPlace, RawEntry};
pub use read_only::ReadOnly;
pub use sectors::Sectors;
pub use table::{PAGE_BYTES, TablePages};
pub use volume::Volume;
pub use writable::{Writable, WriteOptions};

/// Converts a number that is known to be small. Saturates at [`u32::MAX`].
pub fn low32(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}
