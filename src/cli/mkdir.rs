//! The command `diskfs mkdir`.

use clap::Args;

use diskfs::Result;
use diskfs::vfs::edit::make_dirs;
use diskfs::vfs::{NewKind, SetMetadata, resolve_parent};

use super::mode_change::{FileClass, ModeChange};
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::Session;
use super::target::{self, TargetPlace, UMASK, WriteArgs, new_file};

/// Create directories
#[derive(Debug, Args)]
#[command(after_help = "New directories belong to root, and have mode 0755 unless -m is given.

Examples:
  diskfs mkdir disk.qcow2:/srv/data
  diskfs mkdir -p -m 0700 disk.qcow2:/root/.ssh",
    // -p is --parents here, as in mkdir(1), so --partition has no short form.
    mut_arg("partition", |arg| arg.short(None)))]
pub(super) struct Mkdir {
    /// The directories to create
    #[arg(required = true, value_name = "IMG:/DIR")]
    directories: Vec<Operand>,

    /// Create missing parents, too, and accept directories that already exist
    #[arg(short, long)]
    parents: bool,

    /// The mode of the new directories, octal or symbolic
    #[arg(short, long, value_name = "MODE", value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Mkdir, session: &mut Session) -> Result<()> {
    target::for_each(
        session,
        &args.directories,
        &args.source,
        &args.write,
        |session, place| make(args, session, place),
    )
}

fn make(args: &Mkdir, session: &mut Session, place: &TargetPlace) -> Result<()> {
    let attributes = new_file(0o777);
    let fs = place.fs();
    if !args.parents {
        let (dir, name) = resolve_parent(fs, &place.path).map_err(|e| missing(place, e))?;
        let inode = fs.create(dir, &name, NewKind::Directory, &attributes);
        let inode = inode.map_err(|e| place.error(e.in_path(&place.path)))?;
        session.print_done("created directory", &place.path);
        return args.set_mode(place, inode);
    }
    let mut last = false;
    let inode = make_dirs(fs, &place.path, &attributes, &mut |made| {
        last = made.len() == trimmed(&place.path).len();
        session.print_done("created directory", made);
    });
    let inode = inode.map_err(|e| place.error(e))?;
    if last {
        args.set_mode(place, inode)
    } else {
        Ok(())
    }
}

/// Adds the hint at `-p` to an error about a missing parent.
fn missing(place: &TargetPlace, error: diskfs::vfs::Error) -> diskfs::Error {
    let is_missing = error.kind() == diskfs::vfs::ErrorKind::NotFound;
    let error = place.error(error);
    if is_missing {
        return error.with_hint("give -p to create missing parent directories");
    }
    error
}

/// Returns the path without trailing slashes.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/');
    end.map_or(&[], |end| &path[..=end])
}

impl Mkdir {
    /// Sets the requested mode. As in mkdir(1), the mask does not apply to it.
    fn set_mode(&self, place: &TargetPlace, inode: diskfs::vfs::InodeNumber) -> Result<()> {
        let Some(mode) = &self.mode else {
            return Ok(());
        };
        let failed = |e: diskfs::vfs::Error| place.error(e.in_path(&place.path));
        // Symbolic modes are relative to the default mode of a directory, before the mask.
        let metadata = place.fs().metadata(inode).map_err(failed)?;
        let from = metadata.permissions & !0o777 | 0o777;
        let change = SetMetadata {
            permissions: Some(mode.apply(from, FileClass::Directory, UMASK)),
            ..SetMetadata::default()
        };
        place.fs().set_metadata(inode, &change).map_err(failed)
    }
}
