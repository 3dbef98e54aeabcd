//! Directories: listing their entries, and lookup of names.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Directory
//! Entries".

mod block;
mod casefold;
mod change;
mod edited;
mod editor;
mod encrypted_name;
mod entries;
mod entry;
mod indexed;
mod initialise;
mod inline;
mod insert;
mod leaf;
mod listing;
mod lookup;
mod new_block;
mod region;
mod renumber;
pub(crate) mod tail;

pub(crate) use block::htree_directory_of;
pub(crate) use casefold::hashed;
pub(crate) use change::{is_empty, remove, replace, set_parent};
pub(crate) use edited::{entries, lookup};
pub(crate) use entry::{Entry, problem_of_name};
pub(crate) use initialise::initialise;
pub(crate) use insert::insert;
pub(crate) use listing::{Batch, batch};
pub(crate) use new_block::new_block;
pub(crate) use renumber::{EntryBlock, for_each_number, renumber, seal_all};
