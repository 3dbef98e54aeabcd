//! Changes of a directory tree by path.

mod acls;
mod find_or_create;
mod make_dirs;
mod remove;

pub use acls::remove_inherited_acls;
pub use find_or_create::find_or_create;
pub use make_dirs::make_dirs;
pub use remove::{Removed, remove, remove_tree};
