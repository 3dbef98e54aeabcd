//! The command `diskfs rm`.

use std::ops::ControlFlow;

use clap::Args;

use diskfs::vfs::edit::{Removed, remove, remove_tree};
use diskfs::vfs::{self, Follow, resolve};
use diskfs::{ErrorKind, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::target::{self, TargetPlace, WriteArgs};

/// Remove files, and directories with -r
#[derive(Debug, Args)]
#[command(
    after_help = "Symlinks are not followed: nothing outside of the named files is removed. -v prints removed names.

Examples:
  diskfs rm disk.qcow2:/etc/machine-id
  diskfs rm -r disk.qcow2:/var/log/journal /var/cache/apt/archives"
)]
pub(super) struct Rm {
    /// The files to remove
    #[arg(required = true, value_name = "IMG:/PATH")]
    paths: Vec<Operand>,

    /// Remove directories and everything below them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,

    /// Remove empty directories, too
    #[arg(short, long)]
    dir: bool,

    /// Ignore files that do not exist
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Rm, session: &mut Session) -> Result<()> {
    let mut progress = Progress::new(session.progress(), None);
    let done = target::for_each(
        session,
        &args.paths,
        &args.source,
        &args.write,
        |session, place| match args.remove(session, place, &mut progress) {
            Err(error) if args.force && error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        },
    );
    progress.finish();
    done
}

impl Rm {
    fn remove(
        &self,
        session: &mut Session,
        place: &TargetPlace,
        progress: &mut Progress,
    ) -> Result<()> {
        if self.recursive {
            return remove_tree(place.fs(), &place.path, &mut |removed| {
                progress.file();
                match removed {
                    Removed::File(path) | Removed::Directory(path) => {
                        session.print_done("removed", path);
                    }
                    Removed::Failed(error) => session.report(&place.error(error)),
                }
                ControlFlow::Continue(())
            })
            .map_err(|e| place.error(e));
        }
        if !self.dir && is_directory(place)? {
            let error = vfs::Error::from(vfs::ErrorKind::IsADirectory).in_path(&place.path);
            return Err(
                place.error(error.with_hint("give -r to remove it and everything below it"))
            );
        }
        remove(place.fs(), &place.path).map_err(|e| place.error(e))?;
        session.print_done("removed", &place.path);
        Ok(())
    }
}

fn is_directory(place: &TargetPlace) -> Result<bool> {
    let found = resolve(place.fs(), &place.path, Follow::AllButLast)
        .and_then(|inode| place.fs().metadata(inode));
    Ok(found.map_err(|e| place.error(e))?.is_dir())
}
