//! The command `diskfs ln`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;

use diskfs::vfs::{self, Follow, NewKind, resolve, resolve_parent};
use diskfs::{Error, ErrorKind, Result};

use super::into_dir::{Destination, base_name};
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::Session;
use super::target::{TargetPlace, Targets, WriteArgs, new_file};

/// Create hard links, or symlinks with -s
#[derive(Debug, Args)]
#[command(
    after_help = "With -s, TARGET is the text of the symlink, and need not exist.

Examples:
  diskfs ln -s /usr/share/zoneinfo/Europe/Berlin disk.qcow2:/etc/localtime
  diskfs ln -sf ../run/resolv.conf disk.qcow2:/etc/resolv.conf
  diskfs ln disk.qcow2:/vmlinuz /vmlinuz.old"
)]
pub(super) struct Ln {
    /// The file to link to, or the text of the symlink
    #[arg(value_name = "TARGET")]
    target: OsString,

    /// The new name, or a directory to create the link in
    #[arg(value_name = "IMG:/LINK")]
    link: Operand,

    /// Create a symlink
    #[arg(short, long)]
    symbolic: bool,

    /// Replace an existing file of the new name
    #[arg(short, long)]
    force: bool,

    /// Treat LINK as the new name, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Ln, session: &mut Session) -> Result<()> {
    let mut targets = Targets::new(&args.source, &args.write);
    let linked = if args.symbolic {
        targets
            .place(session, &args.link)?
            .map(|link| args.symlink(link))
    } else {
        let operands = [Operand::from(args.target.clone()), args.link.clone()];
        match targets.places(session, &operands)?.as_slice() {
            [target, link] => Some(args.hard_link(target, link.clone())),
            _ => None,
        }
    };
    match linked {
        Some(Ok(place)) => session.print_done("created link", &place.path),
        Some(Err(error)) => session.report(&error),
        None => {}
    }
    targets.finish(session, serde_json::Map::new())
}

impl Ln {
    fn place(&self, link: TargetPlace, target: &[u8]) -> Result<TargetPlace> {
        let destination = Destination::find(link, 1, self.no_target_directory.into())?;
        Ok(destination.for_name(base_name(target).unwrap_or(b".")))
    }

    fn symlink(&self, link: TargetPlace) -> Result<TargetPlace> {
        let target = self.target.as_bytes();
        let place = self.place(link, target)?;
        self.make(&place, |dir, name| {
            let attributes = new_file(0o777);
            place
                .fs()
                .create(dir, name, NewKind::Symlink(target), &attributes)
                .map(|_| ())
        })?;
        Ok(place)
    }

    fn hard_link(&self, target: &TargetPlace, link: TargetPlace) -> Result<TargetPlace> {
        if target.image != link.image {
            let reason = "cannot link to a file in another image";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let inode = resolve(target.fs(), &target.path, Follow::AllButLast);
        let inode = inode.map_err(|e| target.error(e))?;
        let place = self.place(link, &target.path)?;
        self.make(&place, |dir, name| {
            if place.fs().lookup(dir, name).ok() == Some(inode) {
                return Err(vfs::Error::new(
                    vfs::ErrorKind::Exists,
                    "is already the same file",
                ));
            }
            place.fs().link(inode, dir, name)
        })?;
        Ok(place)
    }

    /// Creates a link; with -f it replaces an existing file of that name.
    fn make(
        &self,
        place: &TargetPlace,
        make: impl Fn(vfs::InodeNumber, &[u8]) -> vfs::Result<()>,
    ) -> Result<()> {
        let fs = place.fs();
        let (dir, name) = resolve_parent(fs, &place.path).map_err(|e| place.missing_parent(e))?;
        let made = match make(dir, &name) {
            Err(error) if self.force && error.kind() == vfs::ErrorKind::Exists => {
                // The whole command is one transaction, so either both changes are made or none.
                fs.unlink(dir, &name).and_then(|()| make(dir, &name))
            }
            made => made,
        };
        made.map_err(|e| place.error(e.in_path(&place.path)))
    }
}
