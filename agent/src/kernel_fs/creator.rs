//! Ownership of new files.
//!
//! A file is created by a thread that has the file's owner as its filesystem user id, and the
//! requested umask. So the kernel applies default ACLs and set-group-id directories, and the file
//! never belongs to another user, not even for a moment.

use std::cell::Cell;

use diskfs_vfs::{NewAttributes, Result};
use rustix::fs::Mode;
use rustix::process::umask;
use rustix::thread::{capabilities, set_capabilities};

use super::errors::{failed, io_failed};
use crate::kernel_calls::{set_file_ids, unshare_umask};

/// The identity of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    uid: u32,
    gid: u32,
    umask: u16,
}

thread_local! {
    /// The identity that this thread was given, if any.
    static CURRENT: Cell<Option<Identity>> = const { Cell::new(None) };
}

/// Gives this thread the identity for creating a file with these attributes.
pub(super) fn become_creator(attributes: &NewAttributes) -> Result<()> {
    let wanted = Identity {
        uid: attributes.uid,
        gid: attributes.gid,
        umask: attributes.umask,
    };
    let current = CURRENT.get();
    if current == Some(wanted) {
        return Ok(());
    }
    if current.is_none() {
        unshare_umask().map_err(|error| io_failed(&error))?;
    }
    CURRENT.set(None);
    umask(Mode::from_bits_retain(wanted.umask.into()));
    if current.is_none_or(|current| (current.uid, current.gid) != (wanted.uid, wanted.gid)) {
        set_file_ids(wanted.uid, wanted.gid);
        // Setting another owner than root drops the capabilities that allow writing everywhere.
        let mut sets = capabilities(None).map_err(failed)?;
        sets.effective = sets.permitted;
        set_capabilities(None, sets).map_err(failed)?;
    }
    CURRENT.set(Some(wanted));
    Ok(())
}
