//! Block devices in userspace: the two traits that every layer below a filesystem speaks, and the
//! wrappers that need nothing but them.
//!
//! [`BlockRead`] is a size and positional reads; [`BlockWrite`] adds writing. A function that takes
//! `&dyn BlockRead` cannot damage an image, which is why there are two. Image formats, partitions
//! and volumes are all one of these around another, so each stays small and any of them can stand
//! below any other:
//!
//! * [`File`]: a file or a host block device;
//! * [`Memory`]: bytes in memory;
//! * [`Slice`]: a part of another device, bounds checked (a partition);
//! * [`Cache`]: metadata blocks of another device, with a byte budget;
//! * [`Overlay`]: copy-on-write over a read-only device, in memory or in a temporary file;
//! * [`Counting`]: counts what reaches a device;
//! * [`Faulty`]: fails, cuts, loses or holds back the Nth write, and keeps a [`WriteLog`] of which
//!   crash images are made, for tests.
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
//! // A read past the end of the partition fails, though the disk goes on.
//! assert!(partition.read_at(2000, &mut sector).is_err());
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # Errors
//!
//! One [`Error`] for the layer: a small stable [`ErrorKind`] that programs branch on, the place,
//! and the private reason as its source.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod bytes;
mod cache;
mod counting;
mod device;
mod error;
mod extent;
mod faulty;
mod file;
mod memory;
mod overlay;
mod range_map;
mod slice;
mod wipe;
mod write_log;

pub use cache::{Cache, CacheOptions, CacheStatistics};
pub use counting::{Counting, Counts};
pub use device::{BlockRead, BlockWrite, check_bounds, len_of, read_within};
pub use error::{Error, ErrorKind, Result, go_on, host_reason, with_reasons};
pub use extent::{Extent, ExtentKind};
pub use faulty::{Fault, Faulty};
pub use file::File;
pub use memory::Memory;
pub use overlay::{ChangedRange, Overlay};
pub use slice::Slice;
pub use wipe::wipe_ends;
pub use write_log::{Crash, Event, Fate, WriteLog};
