//! Parsing of byte counts on the command line.

pub(crate) use diskfs::parse_bytes as parse;
