//! From the host, into an image.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use diskfs::vfs::copy_in::{CopyInOptions, CopyTo, copy_in};
use diskfs::vfs::copy_out::{Existing, Summary};
use diskfs::vfs::{self, Follow, InodeNumber, follow_last, resolve, resolve_parent};
use diskfs::{Error, ErrorKind, Result};

use super::{Cp, Total, count, is_in_image, report};
use crate::cli::into_dir::{Destination, base_name};
use crate::cli::operand::Operand;
use crate::cli::progress::Progress;
use crate::cli::session::Session;
use crate::cli::target::{TargetPlace, Targets, UMASK};

pub(super) fn run(
    args: &Cp,
    session: &mut Session,
    sources: &[Operand],
    destination: &Operand,
) -> Result<()> {
    refuse_images(sources)?;
    let mut targets = Targets::new(&args.source, &args.write);
    if !args.is_recursive() && sources.len() == 1 {
        targets = targets.in_one_transaction();
    }
    let mut total = Total::default();
    if let Some(place) = targets.place(session, destination)?
        && let Err(error) = copy_all(args, session, sources, (place, &mut total))
    {
        session.report(&error);
    }
    total.warn(session);
    targets.finish(session, total.json())
}

fn refuse_images(sources: &[Operand]) -> Result<()> {
    match sources.iter().find(|source| is_in_image(source)) {
        None => Ok(()),
        Some(source) => {
            let reason = "copying from image to image is not done yet";
            Err(Error::new(ErrorKind::Unsupported, reason)
                .in_file(source.as_os_str())
                .with_hint("copy it out with `diskfs cp -a`, and then in"))
        }
    }
}

fn copy_all(
    args: &Cp,
    session: &mut Session,
    sources: &[Operand],
    (place, total): (TargetPlace, &mut Total),
) -> Result<()> {
    let as_name = args.no_target_directory.into();
    let destination = Destination::find(place, sources.len(), as_name)?;
    let options = options(args, &destination);
    let mut progress = Progress::new(session.progress(), None);
    for source in sources {
        let source = Path::new(source.as_os_str());
        match copy(args, source, (&destination, &options), &mut progress) {
            Ok(summary) => {
                total.add(&summary);
                let place = source.as_os_str().as_encoded_bytes();
                report(session, summary, |error| told(error, place));
            }
            Err(error) => session.report(&error),
        }
        if session.has_failed_halfway() {
            break;
        }
    }
    progress.finish();
    Ok(())
}

/// An error of a file of the source.
fn told(error: vfs::Error, source: &[u8]) -> Error {
    error.below(source).into()
}

fn options(args: &Cp, destination: &Destination) -> CopyInOptions {
    let (Destination::Name(place) | Destination::Directory(place)) = destination;
    let image = place.reader().image_path().metadata();
    CopyInOptions {
        preserve: args.preserved(),
        umask: UMASK,
        existing: if args.no_clobber {
            Existing::Keep
        } else {
            Existing::Replace
        },
        source_link: if args.is_recursive() {
            Follow::AllButLast
        } else {
            Follow::All
        },
        refused: image.map_or(Vec::new(), |image| vec![(image.dev(), image.ino())]),
        ..CopyInOptions::default()
    }
}

/// Copies one source to where it goes.
fn copy(
    args: &Cp,
    source: &Path,
    (destination, options): (&Destination, &CopyInOptions),
    progress: &mut Progress,
) -> Result<Summary> {
    let metadata = source.metadata().or_else(|_| source.symlink_metadata());
    let is_directory = metadata
        .map_err(|e| Error::from(e).in_file(source))?
        .is_dir();
    if is_directory && !args.is_recursive() {
        let error = Error::new(ErrorKind::IsADirectory, "is a directory").in_file(source);
        return Err(error.with_hint("give -r to copy it with what is in it"));
    }
    let (files, bytes) = progress.done();
    let on_progress = &mut |_: &[u8], summary: &Summary| {
        progress.set(files + count(summary), bytes + summary.bytes);
    };
    let bytes_of_source = source.as_os_str().as_encoded_bytes();
    let copied = match (destination, base_name(bytes_of_source)) {
        // `.` and the like have no name: what is in them goes into the directory itself.
        (Destination::Directory(place), None) => {
            let into = place.reader().resolve(&place.path, Follow::All)?;
            let to = CopyTo::Directory(into);
            copy_in(place.fs(), source, to, options, on_progress)
        }
        (destination, name) => {
            let place = destination.for_name(name.unwrap_or_default());
            let (dir, name) = name_of(&place, args.is_recursive()).map_err(|e| place.error(e))?;
            let to = CopyTo::Name(dir, &name);
            copy_in(place.fs(), source, to, options, on_progress)
        }
    };
    copied.map_err(|e| told(e, bytes_of_source))
}

/// The directory and the name that a copy goes to: without -r through a symlink that leads to a
/// file, as cp(1) does it.
fn name_of(place: &TargetPlace, recursive: bool) -> vfs::Result<(InodeNumber, Vec<u8>)> {
    let fs = place.fs();
    if !recursive && resolve(fs, &place.path, Follow::All).is_ok() {
        return resolve_parent(fs, follow_last(fs, &place.path)?);
    }
    resolve_parent(fs, &place.path)
}
