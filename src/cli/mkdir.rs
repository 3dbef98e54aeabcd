//! `diskfs mkdir`.

use clap::Args;

use diskfs::Result;
use diskfs::vfs::edit::make_dirs;
use diskfs::vfs::{NewKind, SetMetadata, resolve_parent};

use super::mode_change::{ModeChange, Of};
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::Session;
use super::target::{self, TargetPlace, UMASK, WriteArgs, new_file};

/// Make directories
#[derive(Debug, Args)]
#[command(after_help = "They belong to root, with mode 0755 unless -m says otherwise.

Examples:
  diskfs mkdir disk.qcow2:/srv/data
  diskfs mkdir -p -m 0700 disk.qcow2:/root/.ssh",
    // Here -p is what everybody knows it for; --partition has no short form.
    mut_arg("partition", |arg| arg.short(None)))]
pub(super) struct Mkdir {
    /// The directories
    #[arg(required = true, value_name = "IMG:/DIR")]
    directories: Vec<Operand>,

    /// Make those above it, too, and take one that is there for granted
    #[arg(short, long)]
    parents: bool,

    /// The mode, octal or symbolic
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
        session.said("made directory", &place.path);
        return args.set_mode(place, inode);
    }
    let mut last = false;
    let inode = make_dirs(fs, &place.path, &attributes, &mut |made| {
        last = made.len() == trimmed(&place.path).len();
        session.said("made directory", made);
    });
    let inode = inode.map_err(|e| place.error(e))?;
    if last {
        args.set_mode(place, inode)
    } else {
        Ok(())
    }
}

/// A missing parent, with the option that makes it.
fn missing(place: &TargetPlace, error: diskfs::vfs::Error) -> diskfs::Error {
    let is_missing = error.kind() == diskfs::vfs::ErrorKind::NotFound;
    let error = place.error(error);
    if is_missing {
        return error.with_hint("give -p to make the directories above it, too");
    }
    error
}

/// Without the slashes behind it.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/');
    end.map_or(&[], |end| &path[..=end])
}

impl Mkdir {
    /// The mode that was asked for goes past the mask, as with mkdir(1).
    fn set_mode(&self, place: &TargetPlace, inode: diskfs::vfs::InodeNumber) -> Result<()> {
        let Some(mode) = &self.mode else {
            return Ok(());
        };
        let failed = |e: diskfs::vfs::Error| place.error(e.in_path(&place.path));
        // Symbolic modes start from what a directory gets without one, before the mask.
        let metadata = place.fs().metadata(inode).map_err(failed)?;
        let from = metadata.permissions & !0o777 | 0o777;
        let change = SetMetadata {
            permissions: Some(mode.apply(from, Of::Directory, UMASK)),
            ..SetMetadata::default()
        };
        place.fs().set_metadata(inode, &change).map_err(failed)
    }
}
