//! Writing of directories: random names are compared with a model, and then checked by e2fsck and
//! the kernel.

#[path = "../common/mod.rs"]
mod common;
mod hashes;
mod hostile;
mod limits;
mod listing;
mod model;
mod random;
