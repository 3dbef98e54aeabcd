//! Directories: their entries in order, and the one of a name.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Directory
//! Entries".

mod block;
mod casefold;
mod edited;
mod encrypted_name;
mod entries;
mod entry;
mod inline;
mod lookup;

pub(crate) use edited::{entries, lookup};
