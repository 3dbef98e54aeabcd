//! Directories that are written: random names against a model, then everybody else's opinion of them.

#[path = "../common/mod.rs"]
mod common;
mod hashes;
mod hostile;
mod limits;
mod listing;
mod model;
mod random;
