//! `diskfs mv`.

use clap::Args;

use diskfs::vfs::{self, Error as FsError, RenameMode, resolve_parent};
use diskfs::{Error, ErrorKind, Result};

use super::into_dir::{Destination, base_name};
use super::operand::{Operand, with_destination};
use super::options::SourceArgs;
use super::session::Session;
use super::target::{TargetPlace, Targets, WriteArgs};

/// Move or rename files within an image
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs mv disk.qcow2:/etc/fstab /etc/fstab.old
  diskfs mv disk.qcow2:/home/a /home/b /srv/homes/")]
pub(super) struct Mv {
    /// What to move; then where to: a new name, or a directory
    #[arg(required = true, num_args = 1.., value_names = ["IMG:/PATH", "IMG:/DEST"])]
    operands: Vec<Operand>,

    /// Leave what is there already
    #[arg(short = 'n', long)]
    no_clobber: bool,

    /// DEST is the new name, also where it is a directory
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
    let moved = match places.pop() {
        // What could not be opened was told.
        _ if places.len() + 1 < args.operands.len() => Ok(()),
        Some(destination) => args.move_all(session, &places, destination),
        None => Ok(()),
    };
    if let Err(error) = moved {
        session.report(&error);
    }
    targets.finish(session, serde_json::Map::new())
}

impl Mv {
    fn move_all(
        &self,
        session: &mut Session,
        places: &[TargetPlace],
        destination: TargetPlace,
    ) -> Result<()> {
        let as_name = self.no_target_directory.into();
        let destination = Destination::find(destination, places.len(), as_name)?;
        for place in places {
            if let Err(error) = self.move_one(session, place, &destination) {
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
    ) -> Result<()> {
        let no_name = || FsError::new(vfs::ErrorKind::Invalid, "has no name to move by");
        let name =
            base_name(&from.path).ok_or_else(|| from.error(no_name().in_path(&from.path)))?;
        let to = destination.for_name(name);
        if to.image != from.image {
            let reason = "files move within one image";
            let error = Error::new(ErrorKind::Unsupported, reason);
            return Err(
                error.with_hint("copy them out and in with `diskfs cp -a`, then remove them")
            );
        }
        rename(from, &to, self.no_clobber)?;
        session.said("moved to", &to.path);
        Ok(())
    }
}

fn rename(from: &TargetPlace, to: &TargetPlace, keep: bool) -> Result<()> {
    let fs = from.fs();
    let (dir, name) = resolve_parent(fs, &from.path).map_err(|e| from.error(e))?;
    let (to_dir, to_name) = resolve_parent(fs, &to.path).map_err(|e| to.error(e))?;
    let inode = fs.lookup(dir, &name);
    let inode = inode.map_err(|e| from.error(e.in_path(&from.path)))?;
    let there = fs.lookup(to_dir, &to_name).ok();
    if there.is_some() && keep {
        return Ok(());
    }
    if there == Some(inode) {
        if (dir, &name) == (to_dir, &to_name) {
            let reason = "is the same file as where it should go";
            let error = FsError::new(vfs::ErrorKind::Invalid, reason);
            return Err(from.error(error.in_path(&from.path)));
        }
        // Two names of one file: rename(2) would do nothing, and mv(1) removes the one.
        return fs
            .unlink(dir, &name)
            .map_err(|e| from.error(e.in_path(&from.path)));
    }
    fs.rename(dir, &name, to_dir, &to_name, RenameMode::Replace)
        .map_err(|e| to.error(e.in_path(&to.path)))
}
