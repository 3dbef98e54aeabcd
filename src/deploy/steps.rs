//! The steps of plans, one question a file.

mod files;
mod hostname;
mod network;

pub use files::{Append, CopyIn, Delete, Link, MakeDir, Mode, Owner, Permissions, Upload, Write};
pub use hostname::Hostname;
pub use network::{Bond, BondMode, Interface, Mac, Network, Prefix, Route, Stack, Vlan};

#[cfg(test)]
pub(super) mod testing;
