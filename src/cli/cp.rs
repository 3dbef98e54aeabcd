//! The command `diskfs cp`.

mod into;
mod out;

use std::path::Path;

use clap::Args;

use diskfs::vfs::Follow;
use diskfs::vfs::copy_out::{Preserve, Summary};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::operand::{Operand, with_destination};
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::Session;
use super::target::WriteArgs;

/// Copy files out of an image, into an image, or between images
#[derive(Debug, Args)]
#[command(
    after_help = "Holes are preserved, and so are hard links within one copy. With -r a symlink is copied as a
symlink, without -r it is followed; symlinks of an image are followed within the image. Nothing is
written outside of DEST. (-p selects the partition, as in every command; use --preserve for -p of
cp(1).)

When copying into an image, from the host or from an image (even the same one), new files belong to
root unless owners are preserved. An existing regular file gets new contents, and keeps its owner,
mode and attributes unless those of the source are preserved.

Examples:
  diskfs cp disk.qcow2:/etc/fstab .
  diskfs cp -a disk.qcow2:/var/log ./log
  diskfs cp disk.qcow2:/etc/hosts /etc/hostname /tmp/guest/
  diskfs cp -a ./site disk.qcow2:/srv/www
  diskfs cp -a before.qcow2:/home/me after.qcow2:/home/
  diskfs cp --dry-run fstab disk.qcow2:/etc/fstab"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Cp {
    /// The files to copy, then the destination: a new name, or a directory
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "DEST"])]
    operands: Vec<Operand>,

    /// Copy directories and everything below them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,

    /// Copy recursively, and preserve all attributes: short for -r --preserve
    #[arg(short, long)]
    archive: bool,

    /// Preserve modes, times, extended attributes and owners (on the host, owners only as root)
    #[arg(long)]
    preserve: bool,

    /// Keep existing files, and report an error for each of them
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

/// The summary of all copies of one run.
#[derive(Debug, Default)]
struct Total {
    files: u64,
    bytes: u64,
    owners_ignored: u64,
    xattrs_ignored: u64,
    specials_ignored: u64,
}

pub(super) fn run(args: &Cp, session: &mut Session) -> Result<()> {
    let (destination, sources) = with_destination(&args.operands, "DEST")?;
    destination.refuse_remote()?;
    if is_in_image(destination) {
        return into::run(args, session, sources, destination);
    }
    if args.write.overlay.is_some() || args.write.dry_run {
        let reason = "--overlay and --dry-run only apply to copies into an image";
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    out::run(args, session, sources, destination)
}

/// Returns true if an operand is a path in an image, and not a host path that looks like one.
fn is_in_image(operand: &Operand) -> bool {
    let path = Path::new(operand.as_os_str());
    operand.split().path.is_some() && path.symlink_metadata().is_err()
}

impl Cp {
    /// Returns the files of the host that the command uses, if it copies out of images and preserves
    /// no attributes: the calls for these take paths, which Landlock does not restrict.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        let (destination, sources) = with_destination(&self.operands, "DEST").ok()?;
        if is_in_image(destination) || self.preserve || self.archive {
            return None;
        }
        let output = Path::new(destination.as_os_str());
        Some(Needs::reading(sources, &self.source).writing(Some(output)))
    }

    fn is_recursive(&self) -> bool {
        self.recursive || self.archive
    }

    /// Returns whether to follow a symlink that is a source.
    fn follow(&self) -> Follow {
        if self.is_recursive() {
            Follow::AllButLast
        } else {
            Follow::All
        }
    }

    fn preserved(&self) -> Preserve {
        if self.preserve || self.archive {
            Preserve::ALL
        } else {
            Preserve::NOTHING
        }
    }
}

fn count(summary: &Summary) -> u64 {
    summary.files + summary.directories + summary.symlinks + summary.specials + summary.hard_links
}

/// Reports the errors of a copy, each converted by `error`.
fn report(session: &mut Session, summary: Summary, error: impl Fn(diskfs::vfs::Error) -> Error) {
    let reported = summary.errors.len() as u64;
    for inner in summary.errors {
        session.report(&error(inner));
    }
    let more = summary.error_count.saturating_sub(reported);
    if more > 0 {
        let reason = format!("{more} more errors");
        session.report(&Error::new(ErrorKind::Other, reason));
    }
}

impl Total {
    fn add(&mut self, summary: &Summary) {
        self.files += count(summary);
        self.bytes += summary.bytes;
        self.owners_ignored += summary.owners_ignored;
        self.xattrs_ignored += summary.xattrs_ignored;
        self.specials_ignored += summary.specials_ignored;
    }

    /// Warns about what could not be preserved. As in `cp -a` that is not a failure, except for
    /// device nodes.
    fn warn(&self, session: &mut Session) {
        if self.owners_ignored > 0 {
            let count = self.owners_ignored;
            session.warn(&format!(
                "{count} files are owned by you: only root can change owners"
            ));
        }
        if self.xattrs_ignored > 0 {
            let count = self.xattrs_ignored;
            session.warn(&format!(
                "{count} extended attributes could not be set in the destination"
            ));
        }
        if self.specials_ignored > 0 {
            let reason = format!("{} device nodes were not copied", self.specials_ignored);
            let error = Error::new(ErrorKind::Denied, reason);
            session.report(&error.with_hint("only root can create device nodes"));
        }
    }

    fn json(&self) -> Map<String, Value> {
        let numbers = [
            ("files", self.files),
            ("copied_bytes", self.bytes),
            ("owners_ignored", self.owners_ignored),
            ("xattrs_ignored", self.xattrs_ignored),
            ("specials_ignored", self.specials_ignored),
        ];
        let fields = numbers.map(|(name, number)| (name.to_owned(), number.into()));
        fields.into_iter().collect()
    }
}
