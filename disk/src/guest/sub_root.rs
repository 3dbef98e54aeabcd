//! Systems whose root is a directory of their filesystem.

use super::entry::MountEntry;

/// A system root that is not the root of its filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubRoot {
    /// The directory of the root, without a trailing slash.
    pub(super) root: Vec<u8>,
    /// The mounts of the system in addition to those in its own files.
    pub(super) entries: Vec<MountEntry>,
    /// The mount point of the whole filesystem below that root, if it has one.
    pub(super) whole_at: Option<&'static str>,
}
