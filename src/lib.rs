//! diskfs.
