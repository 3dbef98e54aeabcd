//! Applying a change to a file, or to a directory and everything below it.

use diskfs::Result;
use diskfs::vfs::{self, Follow, InodeNumber, Metadata, resolve, walk};

use super::progress::Progress;
use super::session::Session;
use super::show::name::join;
use super::target::TargetPlace;

/// The files that a change applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeScope {
    File(Follow),
    /// The file and everything below it; no symlink is followed.
    Tree,
}

/// Applies `change` to the file at `place`, or to each file of its tree. Errors below it are
/// reported, and the others are still changed.
pub(crate) fn each_file(
    session: &mut Session,
    progress: &mut Progress,
    place: &TargetPlace,
    scope: ChangeScope,
    mut change: impl FnMut(InodeNumber, &Metadata) -> vfs::Result<()>,
) -> Result<()> {
    let fs = place.fs();
    let follow = match scope {
        ChangeScope::File(follow) => follow,
        ChangeScope::Tree => Follow::AllButLast,
    };
    let start = resolve(fs, &place.path, follow).map_err(|e| place.error(e))?;
    if scope != ChangeScope::Tree {
        let changed = fs
            .metadata(start)
            .and_then(|metadata| change(start, &metadata));
        return changed.map_err(|e| place.error(e.in_path(&place.path)));
    }
    for entry in walk(fs, start) {
        let changed = entry.and_then(|entry| {
            change(entry.inode, &entry.metadata)
                .map_err(|error| error.in_path(join(&place.path, &entry.path)))
        });
        progress.file();
        if let Err(error) = changed {
            session.report(&place.error(error.in_path(&place.path)));
        }
        if session.has_failed_halfway() {
            break;
        }
    }
    Ok(())
}
