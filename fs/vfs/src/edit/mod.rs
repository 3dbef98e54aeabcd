//! Changes of a tree, by path.

mod make_dirs;
mod remove;

pub use make_dirs::make_dirs;
pub use remove::{Removed, remove, remove_tree};
