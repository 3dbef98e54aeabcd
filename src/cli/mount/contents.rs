//! The filesystem that a mount shows.

use diskfs::{Disk, Error, ErrorKind, Filesystem, Result, WritableFilesystem, WriteOptions, guest};

use crate::cli::options::{SourceArgs, VolumeArgs};
use crate::cli::session::Session;

/// Opens the filesystem to mount: the selected volume or system, the only one, or all side by side.
pub(super) fn reader(
    disk: &Disk,
    source: &SourceArgs,
    session: &mut Session,
) -> Result<Filesystem> {
    match source.volume.any_filesystem(disk) {
        Err(error) if is_choice(&error, &source.volume) => {
            guest::side_by_side(disk, systems(disk, session)?)
        }
        other => other,
    }
}

/// Opens the filesystem to mount for writing.
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
        other => other,
    }
}

/// Returns the systems to mount side by side. If there is none, the volumes are mounted instead,
/// and a warning names those that may contain a system but cannot be read.
fn systems(disk: &Disk, session: &mut Session) -> Result<Vec<guest::System>> {
    let systems = guest::systems(disk)?;
    if systems.is_empty() && !guest::unopened(disk)?.is_empty() {
        session.warn(&guest::no_system(disk).to_string());
    }
    Ok(systems)
}

/// Returns true if the error means that there are several candidates, and none is selected.
fn is_choice(error: &Error, volume: &VolumeArgs) -> bool {
    error.kind() == ErrorKind::Ambiguous && !volume.names_one()
}

/// Adds the next step to the error for an image that cannot be written to.
pub(super) fn with_read_only_hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported | ErrorKind::ReadOnly if error.next_step().is_none() => {
            error.with_hint("mount the image without --rw to read it")
        }
        _ => error,
    }
}
