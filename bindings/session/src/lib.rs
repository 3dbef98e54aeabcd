//! A disk that a program of another language has open: the common parts of the bindings.
//!
//! A [`Session`] owns a [`Disk`](diskfs::Disk) and opens its filesystems when they are first used.
//! All paths go through it, so a program has to close only one object, and no filesystem is open
//! for writing twice. Documents are those of `diskfs --json`.

mod deployment;
mod documents;
mod open_file;
mod options;
mod session;
mod tree;
mod trees;
mod volumes;

pub use deployment::DeployProgress;
pub use open_file::{FileMode, OpenFile};
pub use options::{Access, SessionOptions};
pub use session::Session;
pub use tree::Tree;
pub use volumes::VolumeSummary;
