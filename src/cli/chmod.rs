//! The command `diskfs chmod`.

use clap::Args;

use diskfs::Result;
use diskfs::vfs::{FileType, Follow, SetMetadata};

use super::each_file::{ChangeScope, each_file};
use super::mode_change::{FileClass, ModeChange};
use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::target::{self, UMASK, WriteArgs};

/// Change the modes of files
#[derive(Debug, Args)]
#[command(
    after_help = "A symlink that is named is followed within the image; symlinks below it (-R) are not changed.

Examples:
  diskfs chmod 0600 disk.qcow2:/etc/shadow
  diskfs chmod -R u=rwX,go=rX disk.qcow2:/srv"
)]
pub(super) struct Chmod {
    /// The new mode, octal (0644) or symbolic (u+x, go=rX)
    #[arg(value_name = "MODE", value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: ModeChange,

    /// The files to change
    #[arg(required = true, value_name = "IMG:/PATH")]
    paths: Vec<Operand>,

    /// Change directories and everything below them
    #[arg(short = 'R', long)]
    recursive: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Chmod, session: &mut Session) -> Result<()> {
    let mut progress = Progress::new(session.progress(), None);
    let scope = if args.recursive {
        ChangeScope::Tree
    } else {
        ChangeScope::File(Follow::All)
    };
    let done = target::for_each(
        session,
        &args.paths,
        &args.source,
        &args.write,
        |session, place| {
            each_file(session, &mut progress, place, scope, |inode, metadata| {
                let of = match metadata.file_type {
                    FileType::Symlink => return Ok(()),
                    FileType::Directory => FileClass::Directory,
                    _ => FileClass::Other,
                };
                let permissions = args.mode.apply(metadata.permissions, of, UMASK);
                if permissions == metadata.permissions {
                    return Ok(());
                }
                let change = SetMetadata {
                    permissions: Some(permissions),
                    ..SetMetadata::default()
                };
                place.fs().set_metadata(inode, &change)
            })
        },
    );
    progress.finish();
    done
}
