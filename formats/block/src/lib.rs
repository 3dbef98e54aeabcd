//! Block devices in userspace: the two traits that all layers below a filesystem implement, and the
//! wrappers that need nothing else.
//!
//! [`BlockRead`] is a size and positional reads; [`BlockWrite`] adds writing. There are two traits,
//! so that a function that takes `&dyn BlockRead` cannot damage an image. Image formats, partitions
//! and volumes are all devices around another device, so each stays small and they can be stacked
//! in any order:
//!
//! * [`File`]: a file or a host block device;
//! * [`Memory`]: bytes in memory;
//! * [`Slice`]: a part of another device, bounds checked (a partition);
//! * [`Cache`]: a cache of another device's metadata blocks, with a byte budget;
//! * [`ByteCache`]: a cache of anything else, with a byte budget, for drivers;
//! * [`Overlay`]: copy-on-write over a read-only device, in memory or in a temporary file;
//! * [`WriteBehind`]: lets another thread write, while the caller prepares the next write;
//! * [`ImageMap`]: the mapping that an image format implements, from the guest's disk to files;
//! * [`ImageLayout`]: the layout that an image format implements, of a new image;
//! * [`Counting`]: counts the requests that reach a device;
//! * [`Faulty`]: for tests, fails, tears, loses or holds back the Nth write, and keeps a
//!   [`WriteLog`] from which crash images are built.
//!
//! ```
//! use std::sync::Arc;
//! use diskfs_block::{BlockRead, Memory, Slice};
//!
//! let disk = Arc::new(Memory::new(vec![7; 4096]));
//! let partition = Slice::new(disk, 1024, 2048)?;
//! let mut sector = [0; 512];
//! partition.read_at(512, &mut sector)?;
//! assert_eq!(sector, [7; 512]);
//! // A read past the end of the partition fails, although the disk is longer.
//! assert!(partition.read_at(2000, &mut sector).is_err());
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # Errors
//!
//! The layer has one [`Error`]: a small stable [`ErrorKind`] for callers to branch on, the place,
//! and the cause as its source.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod byte_cache;
pub mod bytes;
mod cache;
mod cluster_use;
mod counting;
mod crash_states;
mod device;
mod error;
mod extent;
mod faulty;
mod file;
mod image_layout;
mod image_map;
mod memory;
mod overlay;
mod processors;
mod range_map;
mod slice;
mod tables;
mod wipe;
mod write_behind;
mod write_log;
mod zeroes;

pub use byte_cache::{ByteCache, Weight};
pub use cache::{Cache, CacheOptions, CacheStatistics};
pub use cluster_use::{ClusterSet, ClusterUse};
pub use counting::{Counting, Counts};
pub use crash_states::CrashState;
pub use device::{BlockRead, BlockWrite, check_bounds, len_of, read_within, write_zeroes_as_data};
pub use error::{
    Error, ErrorKind, NO_SPACE_ON_HOST, Result, check_cancelled, host_reason, with_reasons,
};
pub use extent::{Extent, ExtentKind};
pub use faulty::{Fault, Faulty};
pub use file::File;
pub use image_layout::{ImageLayout, WriteAt};
pub use image_map::{BlockOffset, CompressedUnit, ImageMap, MappedRun, RunStorage};
pub use memory::Memory;
pub use overlay::{ChangedRange, Overlay};
pub use processors::processors;
pub use slice::Slice;
pub use tables::{BitOrder, SectorBitmap, Tables};
pub use wipe::wipe_ends;
pub use write_behind::WriteBehind;
pub use write_log::{Crash, Event, Fate, WriteLog};
pub use zeroes::Zeroes;
