//! Out of an image, onto the host.

use std::ffi::OsStr;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use diskfs::vfs::copy_out::{CopyOptions, Existing, OnError, Summary};
use diskfs::{Error, ErrorKind, Filesystem, Node, Result, vfs};

use super::{Cp, Total, count, report};
use crate::cli::into_dir::base_name;
use crate::cli::operand::Operand;
use crate::cli::progress::{Holes, Progress, TotalBytes, sizes_below};
use crate::cli::session::{Located, Output, Session, stdout};
use crate::cli::show::json as document;

pub(super) fn run(
    args: &Cp,
    session: &mut Session,
    sources: &[Operand],
    destination: &Operand,
) -> Result<()> {
    let destination = PathBuf::from(destination.as_os_str());
    let places = session.places(sources, &args.source);
    if places.len() > 1 && (args.no_target_directory || !destination.is_dir()) {
        let reason = "several files go into a directory, and this is none";
        return Err(Error::new(ErrorKind::NotADirectory, reason).in_file(&destination));
    }
    let mut progress = Progress::new(session.progress(), total(args, &places));
    let mut total = Total::default();
    for place in &places {
        match copy(args, place, &destination, &mut progress) {
            Ok(summary) => {
                total.add(&summary);
                report(session, summary, |error| {
                    place.filesystem.in_image(error.below(&place.path))
                });
            }
            Err(error) => session.report(&error),
        }
    }
    progress.finish();
    total.warn(session);
    if session.output() == Output::Json {
        let mut out = stdout()?;
        document::write(&mut out, session.command(), total.json().into())?;
        out.flush()?;
    }
    Ok(())
}

/// How much there is to copy.
fn total(args: &Cp, places: &[Located]) -> TotalBytes {
    let found = places
        .iter()
        .filter_map(|place| place.node(args.follow()).ok());
    sizes_below(found.collect(), Holes::LeftOut)
}

/// Copies one source to where it goes.
fn copy(args: &Cp, place: &Located, to: &Path, progress: &mut Progress) -> Result<Summary> {
    let filesystem = &place.filesystem;
    let source = source(args, filesystem, &place.path)?;
    let into = !args.no_target_directory && to.is_dir();
    let destination = match base_name(&place.path) {
        // The image's root has no name: what is in it goes into the directory itself.
        Some(name) if into => to.join(OsStr::from_bytes(name)),
        _ => to.to_owned(),
    };
    guard(filesystem, &destination)?;
    let options = CopyOptions {
        preserve: args.preserved(),
        existing: if args.no_clobber {
            Existing::Keep
        } else {
            Existing::Replace
        },
        on_error: OnError::GoOn,
    };
    let (files, bytes) = progress.done();
    let told = &mut |_: &[u8], summary: &Summary| {
        progress.set(files + count(summary), bytes + summary.bytes);
        ControlFlow::Continue(())
    };
    source.copy_to(&destination, &options, told)
}

/// The file that is meant, which is no directory without -r.
pub(super) fn source(args: &Cp, filesystem: &Filesystem, path: &[u8]) -> Result<Node> {
    let node = filesystem.node(path, args.follow())?;
    if node.metadata()?.is_dir() && !args.is_recursive() {
        let error = vfs::Error::from(vfs::ErrorKind::IsADirectory);
        return Err(node.in_image(error.with_hint("give -r to copy it with what is in it")));
    }
    Ok(node)
}

/// What is in the way of a copy is removed; some things should not be.
fn guard(filesystem: &Filesystem, destination: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let Ok(there) = destination.metadata() else {
        return Ok(());
    };
    let wrong = |reason: &str| Err(Error::new(ErrorKind::Invalid, reason).in_file(destination));
    if !there.is_file() && !there.is_dir() {
        return wrong("is no regular file; `diskfs cat` writes to a pipe or a device");
    }
    let same = |image: std::fs::Metadata| (image.dev(), image.ino()) == (there.dev(), there.ino());
    if filesystem.image_path().metadata().is_ok_and(same) {
        return wrong("is the image itself");
    }
    Ok(())
}
