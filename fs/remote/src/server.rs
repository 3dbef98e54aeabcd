//! The end at which the filesystems are.

mod answer;
mod area;
mod filesystems;
mod machine;
mod programs;
mod work;

pub use crate::protocol::{About, Ended, Greeting, MountRequest, Program, Stream, User};
pub use area::BulkArea;
pub use machine::{Listed, ListedEntries, Location, Machine, Served};
pub use programs::{Happened, Running};
pub use work::{Ending, serve};
