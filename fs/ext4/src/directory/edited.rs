//! Directories changed by fast commits: the entries of their blocks, merged with the names that
//! were added and removed since.

use std::sync::Arc;

use diskfs_vfs::{DirEntry, InodeNumber};

use super::{casefold, entries as stored_entries, lookup as stored_lookup};
use crate::bytes::len_u64;
use crate::error::Result;
use crate::inode::{Inode, InodeFlags};
use crate::journal::{NameEdit, NameEdits};
use crate::volume::Volume;

/// The first cookie of an added name: the cookie after the Nth added name is this value plus N. A
/// directory's blocks end long before byte 2^62.
const ADDED_COOKIES: u64 = 1 << 62;

fn edits<'a>(volume: &'a Volume, directory: &Inode) -> Option<&'a NameEdits> {
    volume.fast_commits.as_ref()?.names(directory.number)
}

/// Returns the inode that `name` refers to in a directory, or `None` if it has no such entry.
pub(crate) fn lookup(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Option<u32>> {
    let stored = stored_lookup::lookup(volume, directory, name)?;
    let Some(edits) = edits(volume, directory) else {
        return Ok(stored);
    };
    if let Some(edit) = edits.get(name) {
        return Ok(edit.resolve(stored));
    }
    if !directory.has(InodeFlags::CASEFOLD) {
        return Ok(stored);
    }
    let Some(folded) = casefold::fold(name) else {
        return Ok(stored);
    };
    let same = edits
        .iter()
        .filter(|(other, _)| casefold::fold(other).as_ref() == Some(&folded));
    Ok(same.fold(stored, |found, (_, edit)| edit.resolve(found)))
}

/// Returns the entries from `cookie` on: 0, or the cookie of the last entry seen.
pub(crate) fn entries<'a>(
    volume: &'a Volume,
    directory: Arc<Inode>,
    cookie: u64,
) -> Result<Box<dyn Iterator<Item = Result<DirEntry>> + Send + 'a>> {
    let Some(edits) = edits(volume, &directory) else {
        return stored_entries::entries(volume, directory, cookie);
    };
    let added = added(volume, edits, Arc::clone(&directory), cookie);
    if cookie >= ADDED_COOKIES {
        return Ok(Box::new(UntilError::new(added)));
    }
    let stored = stored_entries::entries(volume, directory, cookie)?.filter(|entry| match entry {
        Ok(entry) => edits
            .get(&entry.name)
            .is_none_or(|edit| still_refers_to(edit, entry.inode)),
        Err(_) => true,
    });
    Ok(Box::new(UntilError::new(stored.chain(added))))
}

fn still_refers_to(edit: &NameEdit, inode: InodeNumber) -> bool {
    u32::try_from(inode.0).is_ok_and(|inode| edit.still_refers_to(inode))
}

/// Returns the names that are in no block of the directory, from `cookie` on.
fn added<'a>(
    volume: &'a Volume,
    edits: &'a NameEdits,
    directory: Arc<Inode>,
    cookie: u64,
) -> impl Iterator<Item = Result<DirEntry>> + Send + 'a {
    let seen = cookie.saturating_sub(ADDED_COOKIES);
    let rest = edits
        .iter()
        .enumerate()
        .filter(move |(nth, _)| len_u64(*nth) >= seen);
    rest.filter_map(move |(nth, (name, edit))| {
        let inode = edit.added()?;
        match stored_lookup::lookup(volume, &directory, name) {
            Ok(Some(stored)) if edit.still_refers_to(stored) => None,
            Ok(_) => Some(Ok(DirEntry {
                name: name.to_vec(),
                inode: InodeNumber(u64::from(inode)),
                // An invalid inode is reported when its metadata is read.
                file_type: volume
                    .inode(inode)
                    .ok()
                    .flatten()
                    .and_then(|inode| inode.file_type),
                cookie: ADDED_COOKIES.saturating_add(len_u64(nth)).saturating_add(1),
            })),
            Err(e) => Some(Err(e)),
        }
    })
}

/// An iterator that ends after the first error.
struct UntilError<I> {
    entries: Option<I>,
}

impl<I> UntilError<I> {
    const fn new(entries: I) -> Self {
        Self {
            entries: Some(entries),
        }
    }
}

impl<I: Iterator<Item = Result<DirEntry>>> Iterator for UntilError<I> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.as_mut()?.next();
        if !matches!(entry, Some(Ok(_))) {
            self.entries = None;
        }
        entry
    }
}
