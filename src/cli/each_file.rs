//! A change to what is named, or to everything below it.

use diskfs::Result;
use diskfs::vfs::{self, Follow, InodeNumber, Metadata, resolve, walk};

use super::progress::Progress;
use super::session::Session;
use super::show::name::join;
use super::target::TargetPlace;

/// Whether what is below a directory is meant, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    File(Follow),
    /// No symlink on the way is followed.
    Tree,
}

/// Changes what `place` names, each file by `change`. Errors below it are reported, and the rest
/// goes on.
pub(crate) fn each_file(
    session: &mut Session,
    progress: &mut Progress,
    place: &TargetPlace,
    reach: Reach,
    mut change: impl FnMut(InodeNumber, &Metadata) -> vfs::Result<()>,
) -> Result<()> {
    let fs = place.fs();
    let follow = match reach {
        Reach::File(follow) => follow,
        Reach::Tree => Follow::AllButLast,
    };
    let start = resolve(fs, &place.path, follow).map_err(|e| place.error(e))?;
    if reach != Reach::Tree {
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
