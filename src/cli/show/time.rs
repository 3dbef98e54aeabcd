//! Times, as all commands show and take them.

pub(crate) use diskfs::time::*;
