//! The Rock Ridge Interchange Protocol (RRIP, IEEE P1282): the POSIX metadata of files, in SUSP
//! entries.

mod nm;

/// The maximum length of a name: `NAME_MAX` on Linux.
pub(crate) const MAX_NAME_BYTES: usize = 255;
mod pn;
mod px;
mod relocation;
mod sl;
mod tf;

pub(crate) use nm::name;
pub(crate) use pn::device;
pub(crate) use px::PosixAttributes;
pub(crate) use relocation::{child_link, is_relocated, parent_link};
pub(crate) use sl::target;
pub(crate) use tf::Timestamps;
