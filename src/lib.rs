//! Opens a virtual machine's disk image in userspace, down to its files.

mod error;

pub use diskfs_block as block;
pub use diskfs_vfs as vfs;

pub use error::{Error, ErrorKind, Result};
