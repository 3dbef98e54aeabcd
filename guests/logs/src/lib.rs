//! What a guest that does not run has logged: journal files of systemd and text logs, as one stream in the order of
//! time.
//!
//! [`Logs::find`] looks for the files, [`Logs::records`] merges them, from the oldest record or from the newest. A
//! file is opened when its time comes, and read as a stream: memory does not grow with the logs, and the newest
//! records cost nothing of the older files.
//!
//! Files are hostile, as all of a guest's: what is broken is a [`Problem`] in its place, and the rest goes on.

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

/// Which record comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As it was logged.
    OldestFirst,
    /// The other way round.
    NewestFirst,
}

/// Microseconds in a second.
const SECOND_US: u64 = 1_000_000;

/// Seconds in a day.
const DAY_SECONDS: i64 = 86_400;

/// Microseconds in a day.
const DAY_US: u64 = DAY_SECONDS.unsigned_abs() * SECOND_US;
