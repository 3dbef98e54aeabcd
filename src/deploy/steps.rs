//! The steps of plans, one question a file.

mod files;
mod hostname;

pub use files::{Append, CopyIn, Delete, Link, MakeDir, Mode, Owner, Permissions, Upload, Write};
pub use hostname::Hostname;

#[cfg(test)]
pub(super) mod testing;
