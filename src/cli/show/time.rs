//! Formatting and parsing of times, for all commands.

pub(crate) use diskfs::time::*;
