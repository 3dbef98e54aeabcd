//! The logs of a guest that does not run: journal files of systemd and text logs, merged into one
//! stream in the order of time.
//!
//! [`Logs::find`] finds the files, and [`Logs::records`] merges them, starting with the oldest or
//! the newest record. A file is opened when its first record is due, and is read as a stream:
//! memory use does not grow with the logs, and reading the newest records does not read the older
//! files.
//!
//! The files are treated as hostile. A damaged part becomes a [`Problem`] at its position in the
//! stream, and the other records are returned.

mod backward;
mod files;
mod forward;
mod line;
mod merge;
mod origin;
mod packed;
mod record;
mod stream;
mod timestamp;
mod window;
mod zone;

pub use files::Logs;
pub use line::Line;
pub use merge::Records;
pub use record::{Fields, Record};
pub use window::Window;

pub use diskfs_inspect::Problem;
pub use diskfs_journal::{Boot, Entry};

/// The order of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The oldest record first, as it was logged.
    OldestFirst,
    /// The newest record first.
    NewestFirst,
}

/// The number of microseconds in a second.
const SECOND_US: u64 = 1_000_000;

/// The number of seconds in a day.
const DAY_SECONDS: i64 = 86_400;

/// The number of microseconds in a day.
const DAY_US: u64 = DAY_SECONDS.unsigned_abs() * SECOND_US;
