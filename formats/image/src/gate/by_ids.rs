//! The search for the parent of a VDI, which names it only by its identifiers.
//!
//! VirtualBox keeps the paths of all disks in its own registry. Here the parent is a file next to
//! the image, or in a directory that the user allowed. Only names that end in `.vdi` are looked at,
//! and each file must pass the gate like one that the image names.

use std::collections::HashSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use diskfs_block::{Error, ErrorKind, File, Result};
use diskfs_vdi::DiskIds;

use super::Namer;
use super::request::{Reason, Request};

/// The largest number of entries of a directory that are looked at. VirtualBox has a directory for
/// each machine, with a file for each snapshot.
const ENTRIES_MAX: usize = 1000;

/// Opens the parent of an image.
pub(super) fn open(request: &Request<'_>) -> Result<File> {
    let ids = DiskIds::from_bytes(request.name).ok_or_else(|| {
        let reason = "invalid identifiers of the parent: expected 32 bytes";
        Error::corrupt(reason).in_file(request.image.path)
    })?;
    request.check_open()?;
    // A copy of the parent has the same identifier, and other contents once one of them was written.
    let (mut same, mut changed) = (Vec::new(), Vec::new());
    for path in candidates(request) {
        let Some((file, theirs)) = opened(request, &path).filter(|(_, it)| it.id == ids.id) else {
            continue;
        };
        let found = if theirs.contents_id == ids.contents_id {
            &mut same
        } else {
            &mut changed
        };
        // Two are enough for the message, and each takes a descriptor.
        if found.len() < 2 {
            found.push(file);
        }
    }
    let found = if same.is_empty() { changed } else { same };
    let mut files = found.into_iter();
    match (files.next(), files.next()) {
        (Some(file), None) => Ok(file),
        (Some(file), Some(other)) => Err(ambiguous(request.image, ids, &file, &other)),
        (None, _) => Err(missing(request.image, ids)),
    }
}

/// Returns the files that may be the parent, in an order that does not change.
fn candidates(request: &Request<'_>) -> Vec<PathBuf> {
    let own_dir = request.own_dir();
    let mut paths = Vec::new();
    for root in request.roots(own_dir) {
        let entries = root.dir.read_dir().into_iter().flatten();
        let entries = entries.take(ENTRIES_MAX).flatten();
        let names = entries.filter(is_named_vdi).map(|entry| entry.file_name());
        paths.extend(names.map(|name| match root.reason {
            Reason::Beside => own_dir.join(name),
            Reason::File | Reason::Directory => root.dir.join(name),
        }));
    }
    // The image's own directory may be one that is allowed, too.
    let mut known = HashSet::new();
    paths.retain(|path| path.canonicalize().is_ok_and(|real| known.insert(real)));
    paths.sort_unstable();
    paths
}

fn is_named_vdi(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let extension = Path::new(&name).extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("vdi"))
}

/// Opens a file and reads its identifiers; returns `None` if the gate refuses it, or if it is not a
/// VDI.
fn opened(request: &Request<'_>, path: &Path) -> Option<(File, DiskIds)> {
    let file = request.open_path(path.to_owned()).ok()?;
    let ids = DiskIds::read(&file).ok()??;
    Some((file, ids))
}

fn missing(image: Namer<'_>, ids: DiskIds) -> Error {
    let reason = format!("no VDI with the UUID {} of the parent was found", ids.id);
    let hint = "copy the parent to the image's directory, or use --allow-backing DIR with the \
                directory of the parent";
    Error::new(ErrorKind::NotFound, reason)
        .in_file(image.path)
        .with_hint(hint)
}

fn ambiguous(image: Namer<'_>, ids: DiskIds, first: &File, second: &File) -> Error {
    let reason = format!(
        "several files have the UUID {} of the parent: {} and {}",
        ids.id,
        first.path().display(),
        second.path().display()
    );
    Error::invalid(reason)
        .in_file(image.path)
        .with_hint("move all but the right one to another directory")
}
