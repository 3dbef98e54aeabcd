//! What FAT and exFAT have in common, and what no other filesystem has: files are chains of clusters,
//! a file is named, sized and dated by directory entries of 32 bytes, and it has no number but the
//! place of its entry.
//!
//! The structures on the device are each filesystem's own. Here is what is kept of them in memory.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod chain;
mod committer;
mod dos_time;
mod error;
mod holds;
mod numbers;
mod place;
mod sectors;

pub use chain::{Chain, Cluster, Run};
pub use committer::{Again, Committer};
pub use dos_time::DosTime;
pub use error::device_failed;
pub use holds::Holds;
pub use numbers::{Numbers, ROOT};
pub use place::{ENTRY_BYTES, ENTRY_LEN, Place};
pub use sectors::Sectors;

/// A number that is known to be small. Saturates.
pub fn low32(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}
