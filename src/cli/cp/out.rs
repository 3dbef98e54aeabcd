//! Copies out of an image, onto the host.

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
        let reason = "not a directory; several files can only be copied into a directory";
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

/// Returns the size of the copy.
fn total(args: &Cp, places: &[Located]) -> TotalBytes {
    let found = places
        .iter()
        .filter_map(|place| place.node(args.follow()).ok());
    sizes_below(found.collect(), Holes::LeftOut)
}

/// Copies one source to its destination.
fn copy(args: &Cp, place: &Located, to: &Path, progress: &mut Progress) -> Result<Summary> {
    let filesystem = &place.filesystem;
    let source = source(args, filesystem, &place.path)?;
    let into = !args.no_target_directory && to.is_dir();
    let destination = match base_name(&place.path) {
        // The image's root has no name: its contents are copied into the directory itself.
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
        on_error: OnError::Continue,
    };
    let (files, bytes) = progress.done();
    let observer = &mut |_: &[u8], summary: &Summary| {
        progress.set(files + count(summary), bytes + summary.bytes);
        ControlFlow::Continue(())
    };
    source.copy_to(&destination, &options, observer)
}

/// Returns the source node. Refuses a directory without -r.
pub(super) fn source(args: &Cp, filesystem: &Filesystem, path: &[u8]) -> Result<Node> {
    let node = filesystem.node(path, args.follow())?;
    if node.metadata()?.is_dir() && !args.is_recursive() {
        let error = vfs::Error::from(vfs::ErrorKind::IsADirectory);
        return Err(node.in_image(error.with_hint("give -r to copy it and everything below it")));
    }
    Ok(node)
}

/// Checks that the destination may be replaced: an existing file there is removed by the copy.
fn guard(filesystem: &Filesystem, destination: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let Ok(there) = destination.metadata() else {
        return Ok(());
    };
    let wrong = |reason: &str| Err(Error::new(ErrorKind::Invalid, reason).in_file(destination));
    if !there.is_file() && !there.is_dir() {
        return wrong("not a regular file; use `diskfs cat` to write to a pipe or a device");
    }
    let same = |image: std::fs::Metadata| (image.dev(), image.ino()) == (there.dev(), there.ino());
    if filesystem.image_path().metadata().is_ok_and(same) {
        return wrong("the destination is the image itself");
    }
    Ok(())
}
