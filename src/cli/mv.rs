//! The command `diskfs mv`.

use std::ops::ControlFlow;

use clap::Args;

use diskfs::Result;
use diskfs::vfs::copy_in::{CopyFrom, CopyInOptions, CopyTo, copy_within};
use diskfs::vfs::copy_out::Summary;
use diskfs::vfs::edit::{Removed, remove_tree};
use diskfs::vfs::{
    self, Error as FsError, Follow, FsWrite, InodeNumber, Metadata, RenameMode, resolve_parent,
};

use super::into_dir::{Destination, base_name};
use super::operand::{Operand, with_destination};
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::target::{TargetPlace, Targets, WriteArgs};

/// Move or rename files within an image, or to another image
#[derive(Debug, Args)]
#[command(
    after_help = "Between two filesystems (of one guest, or of two images), files are copied with all their
attributes, and the originals are removed when the copies are durable. A crash in between leaves
both.

Examples:
  diskfs mv disk.qcow2:/etc/fstab /etc/fstab.old
  diskfs mv disk.qcow2:/home/a /home/b /srv/homes/
  diskfs mv before.qcow2:/home/a after.qcow2:/opt/"
)]
pub(super) struct Mv {
    /// The files to move, then the destination: a new name, or a directory
    #[arg(required = true, num_args = 1.., value_names = ["IMG:/PATH", "IMG:/DEST"])]
    operands: Vec<Operand>,

    /// Keep existing files, and do not move onto them
    #[arg(short = 'n', long)]
    no_clobber: bool,

    /// Treat DEST as the new name, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Mv, session: &mut Session) -> Result<()> {
    with_destination(&args.operands, "IMG:/DEST")?;
    let mut targets = Targets::new(&args.source, &args.write);
    let mut places = targets.places(session, &args.operands)?;
    let wanted = args.wanted();
    let moved = match places.pop() {
        // A place that could not be opened was already reported.
        _ if places.len() + 1 < wanted => Ok(()),
        Some(destination) => args.move_all(session, &places, destination),
        None => Ok(()),
    };
    if let Err(error) = moved {
        session.report(&error);
    }
    targets.finish(session, serde_json::Map::new())
}

impl Mv {
    /// Returns the number of places that the operands name. An image that is followed by paths is
    /// not a place of its own.
    fn wanted(&self) -> usize {
        let pairs = self.operands.iter().zip(self.operands.iter().skip(1));
        let named_only =
            pairs.filter(|(image, path)| image.split().path.is_none() && path.is_bare_path());
        self.operands.len().saturating_sub(named_only.count())
    }

    fn move_all(
        &self,
        session: &mut Session,
        places: &[TargetPlace],
        destination: TargetPlace,
    ) -> Result<()> {
        let as_name = self.no_target_directory.into();
        let destination = Destination::find(destination, places.len(), as_name)?;
        let mut progress = Progress::new(session.progress(), None);
        let mut copied = Vec::new();
        for place in places {
            match self.move_one(session, place, &destination, &mut progress) {
                Ok(MoveOutcome::Renamed) => {}
                Ok(MoveOutcome::Copied) => copied.push(place),
                Err(error) => session.report(&error),
            }
            if session.has_failed_halfway() {
                break;
            }
        }
        progress.finish();
        if copied.is_empty() || session.has_failed_halfway() {
            return Ok(());
        }
        let (Destination::Name(to) | Destination::Directory(to)) = &destination;
        to.fs().sync().map_err(|e| to.error(e))?;
        for place in copied {
            if let Err(error) = remove(place) {
                session.report(&error);
            }
        }
        Ok(())
    }

    fn move_one(
        &self,
        session: &mut Session,
        from: &TargetPlace,
        destination: &Destination,
        progress: &mut Progress,
    ) -> Result<MoveOutcome> {
        let no_name = || {
            FsError::new(
                vfs::ErrorKind::Invalid,
                "cannot move: the path does not end in a name",
            )
        };
        let name =
            base_name(&from.path).ok_or_else(|| from.error(no_name().in_path(&from.path)))?;
        let to = destination.for_name(name);
        let moved = if to.image == from.image {
            rename(from, &to, self.no_clobber)?
        } else {
            None
        };
        let moved = match moved {
            Some(moved) => moved,
            None => copy(session, from, &to, self.no_clobber, progress)?,
        };
        session.print_done("moved to", &to.path);
        Ok(moved)
    }
}

/// The result of moving a file.
enum MoveOutcome {
    /// The file was renamed, or not moved because the new name is taken.
    Renamed,
    /// The file was copied; the original must be removed when the copy is durable.
    Copied,
}

/// Copies a file with all its attributes. An existing file is replaced, as rename(2) would do it.
fn copy(
    session: &mut Session,
    from: &TargetPlace,
    to: &TargetPlace,
    keep: bool,
    progress: &mut Progress,
) -> Result<MoveOutcome> {
    let source = from.reader().resolve(&from.path, Follow::AllButLast)?;
    let (dir, name) = resolve_parent(to.fs(), &to.path).map_err(|e| to.missing_parent(e))?;
    if let Ok(there) = to.fs().lookup(dir, &name) {
        if keep {
            return Ok(MoveOutcome::Renamed);
        }
        let failed = |e: FsError| to.error(e.in_path(&to.path));
        let source = from.fs().metadata(source).map_err(|e| from.error(e))?;
        let there = to.fs().metadata(there).map_err(failed)?;
        make_room(to.fs(), dir, &name, &source, &there).map_err(failed)?;
    }
    let source = CopyFrom {
        fs: from.fs(),
        inode: source,
        same: to.image == from.image,
    };
    let (files, bytes) = progress.done();
    let observer = &mut |_: &[u8], summary: &Summary| {
        progress.set(files + summary.files, bytes + summary.bytes);
        ControlFlow::Continue(())
    };
    let options = CopyInOptions::default();
    let in_source = |error: FsError| from.error(error.below(&from.path));
    let summary = copy_within(
        to.fs(),
        source,
        CopyTo::Name(dir, &name),
        &options,
        observer,
    );
    let mut summary = summary.map_err(in_source)?;
    if summary.errors.is_empty() {
        return Ok(MoveOutcome::Copied);
    }
    let last = summary.errors.pop();
    for error in summary.errors {
        session.report(&in_source(error));
    }
    let last = last.unwrap_or_else(|| vfs::ErrorKind::Io.into());
    Err(in_source(last).with_hint("the other files were copied, and nothing was removed"))
}

/// Removes the file that a move replaces.
fn make_room(
    fs: &dyn FsWrite,
    dir: InodeNumber,
    name: &[u8],
    source: &Metadata,
    there: &Metadata,
) -> vfs::Result<()> {
    match (source.is_dir(), there.is_dir()) {
        (true, true) => fs.rmdir(dir, name),
        (false, true) => Err(vfs::ErrorKind::IsADirectory.into()),
        (true, false) => Err(vfs::ErrorKind::NotADirectory.into()),
        (false, false) => fs.unlink(dir, name),
    }
}

/// Removes the original after it was copied.
fn remove(place: &TargetPlace) -> Result<()> {
    let mut first = Ok(());
    let removed = remove_tree(place.fs(), &place.path, &mut |removed| {
        if let (Removed::Failed(error), Ok(())) = (removed, &first) {
            first = Err(error);
        }
        ControlFlow::Continue(())
    });
    removed.and(first).map_err(|e| place.error(e))
}

/// Renames within an image, or returns `None` if the destination is on another filesystem.
fn rename(from: &TargetPlace, to: &TargetPlace, keep: bool) -> Result<Option<MoveOutcome>> {
    let fs = from.fs();
    let (dir, name) = resolve_parent(fs, &from.path).map_err(|e| from.error(e))?;
    let (to_dir, to_name) = resolve_parent(fs, &to.path).map_err(|e| to.missing_parent(e))?;
    let inode = fs.lookup(dir, &name);
    let inode = inode.map_err(|e| from.error(e.in_path(&from.path)))?;
    let there = fs.lookup(to_dir, &to_name).ok();
    if there.is_some() && keep {
        return Ok(Some(MoveOutcome::Renamed));
    }
    if there == Some(inode) {
        if (dir, &name) == (to_dir, &to_name) {
            let reason = "source and destination are the same file";
            let error = FsError::new(vfs::ErrorKind::Invalid, reason);
            return Err(from.error(error.in_path(&from.path)));
        }
        // Both are names of one file: rename(2) would do nothing, but mv(1) removes the old name.
        let removed = fs.unlink(dir, &name);
        return removed
            .map(|()| Some(MoveOutcome::Renamed))
            .map_err(|e| from.error(e.in_path(&from.path)));
    }
    match fs.rename(dir, &name, to_dir, &to_name, RenameMode::Replace) {
        Ok(()) => Ok(Some(MoveOutcome::Renamed)),
        Err(error) if error.kind() == vfs::ErrorKind::CrossesDevices => Ok(None),
        Err(error) => Err(to.error(error.in_path(&to.path))),
    }
}
