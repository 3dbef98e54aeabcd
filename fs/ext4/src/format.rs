//! Creation of filesystems. Everything that has a default, and the place of every structure, is as
//! mke2fs 1.47 chooses it.
//!
//! A [`plan::Plan`] decides everything in memory, so that wishes that cannot be fulfilled are
//! refused before the first byte is written. Then [`write`] executes it.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms"; mke2fs(8) and
//! mke2fs.conf(5) for the defaults.

mod block_writer;
mod changes;
mod feature_set;
mod fitting;
mod geometry;
mod groups;
mod journal_size;
mod new_files;
mod options;
mod parse;
mod plan;
mod profile;
mod superblock;
mod tables;
mod tree_usage;
mod used_blocks;
mod write;
mod zeroes;

use diskfs_block::BlockWrite;

use crate::error::Result;

pub use changes::FeatureChanges;
pub use fitting::fitting_size;
pub use options::{
    BlockCount, ExtendedOptions, FormatKind, FormatOptions, JournalOptions, UsageType,
};
pub use tree_usage::TreeUsage;

/// Creates an empty filesystem on the whole device. The old contents are lost, and the filesystem
/// is durable when the function returns. The superblock is written last: after a crash there is
/// either no filesystem or a complete one.
///
/// # Errors
/// Before anything is written: `Invalid` for options that contradict each other or the size of the
/// device. Later: `Io` and `NoSpace` if the device fails.
pub fn format(device: &dyn BlockWrite, options: &FormatOptions) -> Result<()> {
    let mut plan = plan::Plan::new(options, device.size_bytes())?;
    write::write(device, options, &mut plan)
}
