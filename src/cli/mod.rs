//! The `diskfs` program's commands: one file each.

pub(crate) mod options;
