//! The checks before a filesystem is opened for writing.

use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible};

use super::Superblock;

/// The hint for a filesystem that must be repaired first.
const REPAIR: &str = "run e2fsck on a copy";

/// Refuses filesystems that this driver cannot write, or only after a repair. Nothing is written.
///
/// # Errors
/// `Unsupported`, `Corrupt`.
pub(crate) fn check_writable(superblock: &Superblock) -> Result<()> {
    let features = superblock.features;
    let names = features.unwritable_names();
    if !names.is_empty() {
        let reason = format!(
            "has features that this driver does not write: {}",
            names.join(", ")
        );
        let hint = "diskfs can read it; write to it from its own operating system";
        return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
    }
    let state = superblock.state;
    let journal = features.has(Compatible::HAS_JOURNAL);
    if journal && superblock.journal_inode == 0 {
        let reason = "has an external journal, which is on another device";
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    if !journal && features.has(Incompatible::NEEDS_RECOVERY) {
        return Err(damaged("needs recovery by a journal that it does not have"));
    }
    if superblock.revision == 0 {
        let reason = "is of revision 0 of the format, which this driver does not write";
        let hint = "on a copy, `tune2fs -O filetype` converts it to revision 1";
        return Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint));
    }
    if state.errors {
        return Err(damaged("is marked as having errors"));
    }
    if !state.clean {
        return Err(damaged(
            "was not unmounted cleanly, and has no journal to recover from",
        ));
    }
    Ok(())
}

fn damaged(reason: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, reason).with_hint(REPAIR)
}
