//! Who new files belong to.
//!
//! A file is made by a thread that is, for files, its owner, with the umask that was asked for: so
//! the kernel decides on default ACLs and set-group-id directories, and a file is at no time somebody
//! else's.

use std::cell::Cell;

use diskfs_vfs::{NewAttributes, Result};
use rustix::fs::Mode;
use rustix::process::umask;
use rustix::thread::{capabilities, set_capabilities};

use super::errors::{failed, io_failed};
use crate::kernel_calls::{set_file_ids, unshare_umask};

/// What a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    uid: u32,
    gid: u32,
    umask: u16,
}

thread_local! {
    /// What this thread is, if it was made anything.
    static CURRENT: Cell<Option<Identity>> = const { Cell::new(None) };
}

/// Makes this thread the creator of what has these attributes.
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
        // Another owner than root takes the capabilities away that let it write anywhere.
        let mut sets = capabilities(None).map_err(failed)?;
        sets.effective = sets.permitted;
        set_capabilities(None, sets).map_err(failed)?;
    }
    CURRENT.set(Some(wanted));
    Ok(())
}
