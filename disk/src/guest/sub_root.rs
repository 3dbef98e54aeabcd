//! Systems whose root is a directory of their filesystem.

use super::entry::MountEntry;

/// A root that is not its filesystem's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubRoot {
    /// Its directory, without a slash at its end.
    pub(super) root: Vec<u8>,
    /// What the system mounts besides what its own files say.
    pub(super) entries: Vec<MountEntry>,
    /// Where the whole filesystem is shown below that root, if anywhere.
    pub(super) whole_at: Option<&'static str>,
}
