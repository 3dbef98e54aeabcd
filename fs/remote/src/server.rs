//! The server: the side of the protocol that has the filesystems.

mod answer;
mod area;
mod filesystems;
mod machine;
mod programs;
mod work;

pub use crate::protocol::{
    About, Ended, HostHello, MountDevice, MountRequest, Program, Stream, User,
};
pub use area::BulkArea;
pub use machine::{Listed, ListedEntries, Location, Machine, Served};
pub use programs::{ProgramEvent, Running};
pub use work::{Ending, serve};
