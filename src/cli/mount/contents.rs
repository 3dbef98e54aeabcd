//! What a mount shows.

use diskfs::{Disk, Error, ErrorKind, Filesystem, Result, WritableFilesystem, WriteOptions, guest};

use crate::cli::options::{SourceArgs, VolumeArgs};
use crate::cli::session::Session;

/// What is mounted: the volume or the system that is named, the only one, or all side by side.
pub(super) fn reader(
    disk: &Disk,
    source: &SourceArgs,
    session: &mut Session,
) -> Result<Filesystem> {
    match source.volume.any_filesystem(disk) {
        Err(error) if is_choice(&error, &source.volume) => {
            guest::side_by_side(disk, systems(disk, session)?)
        }
        meant => meant,
    }
}

/// The same for writing.
pub(super) fn writer(
    disk: &Disk,
    source: &SourceArgs,
    session: &mut Session,
) -> Result<WritableFilesystem> {
    let options = WriteOptions::default();
    match source.volume.any_writable_filesystem(disk, options) {
        Err(error) if is_choice(&error, &source.volume) => {
            guest::writable_side_by_side(disk, systems(disk, session)?, &options)
        }
        meant => meant,
    }
}

/// Returns the systems that are mounted side by side. Without one, the volumes are, and a warning names those that may
/// hold a system and can't be read.
fn systems(disk: &Disk, session: &mut Session) -> Result<Vec<guest::System>> {
    let systems = guest::systems(disk)?;
    if systems.is_empty() && !guest::unopened(disk)?.is_empty() {
        session.warn(&guest::no_system(disk).to_string());
    }
    Ok(systems)
}

/// Whether there are several that could be meant, and none was named.
fn is_choice(error: &Error, volume: &VolumeArgs) -> bool {
    error.kind() == ErrorKind::Ambiguous && !volume.names_one()
}

/// What can be done with an image that can't be written.
pub(super) fn way_on(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported | ErrorKind::ReadOnly if error.next_step().is_none() => {
            error.with_hint("mount it without --rw to read it")
        }
        _ => error,
    }
}
