//! Copies into an image, from the host or from an image.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use diskfs::image::ImageSpec;
use diskfs::vfs::copy_in::{CopyFrom, CopyInOptions, CopyTo, copy_in, copy_within};
use diskfs::vfs::copy_out::{Existing, Summary};
use diskfs::vfs::{self, Follow, InodeNumber, follow_last, resolve, resolve_parent};
use diskfs::{Error, ErrorKind, Filesystem, Result};

use super::{Cp, Total, count, is_in_image, report};
use crate::cli::into_dir::{Destination, base_name};
use crate::cli::operand::Operand;
use crate::cli::progress::{self, Holes, Progress, size_on_host, sizes_below};
use crate::cli::session::{Session, expanded};
use crate::cli::target::{TargetPlace, Targets, UMASK};

pub(super) fn run(
    args: &Cp,
    session: &mut Session,
    sources: &[Operand],
    destination: &Operand,
) -> Result<()> {
    let mut targets = Targets::new(&args.source, &args.write);
    if !args.is_recursive() && sources.len() == 1 {
        targets = targets.in_one_transaction();
    }
    let mut total = Total::default();
    if let Some(place) = targets.place(session, destination)? {
        let found = find_all(args, session, sources, &place, &mut targets)?;
        if let Err(error) = copy_all(args, session, &found, place, &mut total) {
            session.report(&error);
        }
    }
    total.warn(session);
    targets.finish(session, total.json())
}

/// A source of a copy.
enum Source {
    /// A path on the host.
    Host(PathBuf),
    /// A path in an image.
    Guest {
        filesystem: Filesystem,
        path: Vec<u8>,
        /// True if the copy stays within the same filesystem.
        same: bool,
    },
}

/// Opens the images that contain sources. Failures are reported, and those sources are skipped. A
/// path without an image belongs to the image of the source before it.
fn find_all(
    args: &Cp,
    session: &mut Session,
    sources: &[Operand],
    destination: &TargetPlace,
    targets: &mut Targets<'_>,
) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut image: Option<OsString> = None;
    for source in sources {
        let place = match &image {
            Some(image) if source.is_bare_path() => Operand::at(image, source.as_os_str()),
            _ => source.clone(),
        };
        if !is_in_image(&place) {
            image = None;
            found.push(Source::Host(source.as_os_str().into()));
            continue;
        }
        let named = place.split().image;
        // An image is opened only once: for writing, if it is also the destination.
        if is_same_image(&named, &destination.image) {
            let path = place.split().path.unwrap_or_default();
            let place = Operand::at(&destination.image, OsStr::from_bytes(&path));
            let there = targets.place(session, &place)?;
            if let Some(there) = there {
                let filesystem = there.reader();
                let paths = expanded(filesystem, there.path.clone())?;
                found.extend(paths.into_iter().map(|path| Source::Guest {
                    filesystem: filesystem.clone(),
                    path,
                    same: true,
                }));
            }
        } else {
            let places = session.places(std::slice::from_ref(&place), &args.source);
            found.extend(places.into_iter().map(|place| Source::Guest {
                filesystem: place.filesystem,
                path: place.path,
                same: false,
            }));
        }
        image = Some(named);
    }
    Ok(found)
}

/// Returns true if two images, as the user names them, are the same file in the same state.
fn is_same_image(one: &OsStr, other: &OsStr) -> bool {
    let spec = |image: &OsStr| {
        let spec = ImageSpec::parse(image).ok()?;
        Some((spec.path.canonicalize().ok()?, spec.snapshot))
    };
    one == other || spec(one).is_some_and(|one| Some(one) == spec(other))
}

impl Source {
    /// Returns the path that errors show.
    fn path(&self) -> &[u8] {
        match self {
            Self::Host(path) => path.as_os_str().as_bytes(),
            Self::Guest { path, .. } => path,
        }
    }

    /// Adds the source's image or file to an error, by its path within the copy.
    fn locate(&self, error: vfs::Error) -> Error {
        let error = error.below(self.path());
        match self {
            Self::Host(_) => error.into(),
            Self::Guest { filesystem, .. } => filesystem.in_image(error),
        }
    }

    fn copy(
        &self,
        args: &Cp,
        place: &TargetPlace,
        to: CopyTo<'_>,
        options: &CopyInOptions,
        progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    ) -> Result<Summary> {
        let copied = match self {
            Self::Host(path) => copy_in(place.fs(), path, to, options, progress),
            Self::Guest {
                filesystem,
                path,
                same,
            } => {
                let source = CopyFrom {
                    fs: filesystem.as_fs(),
                    inode: super::out::source(args, filesystem, path)?.inode(),
                    same: *same,
                };
                copy_within(place.fs(), source, to, options, progress)
            }
        };
        copied.map_err(|error| self.locate(error))
    }

    fn check_recursive(&self, args: &Cp) -> Result<()> {
        let Self::Host(path) = self else {
            return Ok(()); // Checked by `out::source` when the copy opens it.
        };
        let metadata = path.metadata().or_else(|_| path.symlink_metadata());
        let metadata = metadata.map_err(|e| Error::from(e).in_file(path))?;
        if metadata.is_dir() && !args.is_recursive() {
            let error = Error::new(ErrorKind::IsADirectory, "is a directory").in_file(path);
            return Err(error.with_hint("give -r to copy it and everything below it"));
        }
        Ok(())
    }
}

fn copy_all(
    args: &Cp,
    session: &mut Session,
    sources: &[Source],
    place: TargetPlace,
    total: &mut Total,
) -> Result<()> {
    let as_name = args.no_target_directory.into();
    // A source that could not be opened was reported, and still counts.
    let count = sources.len().max(args.operands.len().saturating_sub(1));
    let destination = Destination::find(place, count, as_name)?;
    let options = options(args, &destination);
    let mut progress = Progress::new(session.progress(), size(args, sources));
    for source in sources {
        match copy(args, source, &destination, &options, &mut progress) {
            Ok(summary) => {
                total.add(&summary);
                report(session, summary, |error| source.locate(error));
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

/// Returns the size of the copy, if all sources are on the host or all are in images.
fn size(args: &Cp, sources: &[Source]) -> progress::TotalBytes {
    let host = sources.iter().map(|source| match source {
        Source::Host(path) => Some(path.clone()),
        Source::Guest { .. } => None,
    });
    if let Some(paths) = host.collect::<Option<Vec<_>>>() {
        return size_on_host(paths);
    }
    let guest = sources.iter().map(|source| match source {
        // A source in the filesystem that is written to is not counted: it cannot be read at the
        // same time.
        Source::Guest {
            filesystem,
            path,
            same: false,
        } => filesystem.node(path, args.follow()).ok(),
        _ => None,
    });
    let guest = guest.collect::<Option<Vec<_>>>();
    guest.map_or(progress::TotalBytes::Unknown, |starts| {
        sizes_below(starts, Holes::LeftOut)
    })
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
        source_link: args.follow(),
        refused: image.map_or(Vec::new(), |image| vec![(image.dev(), image.ino())]),
        ..CopyInOptions::default()
    }
}

/// Copies one source to its destination.
fn copy(
    args: &Cp,
    source: &Source,
    destination: &Destination,
    options: &CopyInOptions,
    progress: &mut Progress,
) -> Result<Summary> {
    source.check_recursive(args)?;
    let (files, bytes) = progress.done();
    let on_progress = &mut |_: &[u8], summary: &Summary| {
        progress.set(files + count(summary), bytes + summary.bytes);
        ControlFlow::Continue(())
    };
    match (destination, base_name(source.path())) {
        // `.` and the like have no name: their contents are copied into the directory itself.
        (Destination::Directory(place), None) => {
            let into = place.reader().resolve(&place.path, Follow::All)?;
            source.copy(args, place, CopyTo::Directory(into), options, on_progress)
        }
        (destination, name) => {
            let place = destination.for_name(name.unwrap_or_default());
            let (dir, name) =
                name_of(&place, args.is_recursive()).map_err(|e| place.missing_parent(e))?;
            let to = CopyTo::Name(dir, &name);
            source.copy(args, &place, to, options, on_progress)
        }
    }
}

/// Returns the directory and the name of the destination. Without -r, a symlink to a file is
/// followed, as in cp(1).
fn name_of(place: &TargetPlace, recursive: bool) -> vfs::Result<(InodeNumber, Vec<u8>)> {
    let fs = place.fs();
    if !recursive && resolve(fs, &place.path, Follow::All).is_ok() {
        return resolve_parent(fs, follow_last(fs, &place.path)?);
    }
    resolve_parent(fs, &place.path)
}
