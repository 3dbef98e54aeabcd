//! The end at which the filesystems are.

mod answer;
mod filesystems;
mod machine;
mod work;

pub use crate::protocol::{About, MountRequest};
pub use machine::{Listed, ListedEntries, Machine, Served};
pub use work::{Ending, serve};
