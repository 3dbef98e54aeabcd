//! `diskfs cp`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::vfs::copy_out::{CopyOptions, Existing, OnError, Preserve, Summary, copy_out};
use diskfs::vfs::{self, Follow, InodeNumber};
use diskfs::{Error, ErrorKind, Filesystem, Result};
use serde_json::json;

use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::{Located, Output, Session, stdout};
use super::show::json as document;

/// Copy files out of an image
#[derive(Debug, Args)]
#[command(
    after_help = "Holes stay holes, and hard links within one copy stay links. A symlink is copied as one with -r,
and followed within the image without. Nothing is written outside of DEST, whatever the image
holds. (-p is the partition here, as everywhere; for what it is in cp(1), give --preserve.)

Examples:
  diskfs cp disk.qcow2:/etc/fstab .
  diskfs cp -a disk.qcow2:/var/log ./log
  diskfs cp disk.qcow2:/etc/hosts /etc/hostname /tmp/guest/"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Cp {
    /// What to copy; then where to: a new name, or a directory of this machine
    #[arg(required = true, num_args = 2.., value_names = ["IMG:/PATH", "DEST"])]
    operands: Vec<Operand>,

    /// Directories with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,

    /// The same, and keep all there is to a file: short for -r --preserve
    #[arg(short, long)]
    archive: bool,

    /// Keep modes, times and extended attributes; owners, too, as root
    #[arg(long)]
    preserve: bool,

    /// Leave what is there already, and fail for what would take its place
    #[arg(short = 'n', long)]
    no_clobber: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// What all copies of one run did.
#[derive(Debug, Default)]
struct Total {
    files: u64,
    bytes: u64,
    owners_ignored: u64,
    xattrs_ignored: u64,
    specials_ignored: u64,
}

pub(super) fn run(args: &Cp, session: &mut Session) -> Result<()> {
    let Some((destination, sources)) = args.operands.split_last() else {
        return Ok(());
    };
    refuse_image(destination)?;
    let destination = PathBuf::from(destination.as_os_str());
    let places = session.places(sources, &args.source);
    if places.len() > 1 && !destination.is_dir() {
        let reason = "several files go into a directory, and this is none";
        return Err(Error::new(ErrorKind::NotADirectory, reason).in_file(&destination));
    }
    let mut progress = Progress::new(session.progress(), None);
    let mut total = Total::default();
    for place in &places {
        match copy(args, place, &destination, &mut progress) {
            Ok(summary) => {
                total.add(&summary);
                report(session, place, summary);
            }
            Err(error) => session.report(&error),
        }
    }
    progress.finish();
    total.warn(session);
    if session.output() == Output::Json {
        let mut out = stdout()?;
        document::write(&mut out, session.command(), total.json())?;
        out.flush()?;
    }
    Ok(())
}

fn refuse_image(destination: &Operand) -> Result<()> {
    let split = destination.split();
    let image = Path::new(&split.image);
    if split.path.is_none() || !image.is_file() {
        return Ok(());
    }
    let reason = "copying into an image is not done yet; images are opened for reading only";
    Err(Error::new(ErrorKind::Unsupported, reason).in_file(image))
}

/// Copies one source to where it goes.
fn copy(args: &Cp, place: &Located, to: &Path, progress: &mut Progress) -> Result<Summary> {
    let filesystem = &place.filesystem;
    let recursive = args.recursive || args.archive;
    let source = source(filesystem, &place.path, recursive)?;
    let destination = match base_name(&place.path) {
        // The image's root has no name: what is in it goes into the directory itself.
        Some(name) if to.is_dir() => to.join(as_path(name)),
        _ => to.to_owned(),
    };
    guard(filesystem, &destination)?;
    let preserve = args.preserve || args.archive;
    let options = CopyOptions {
        preserve: if preserve {
            Preserve::ALL
        } else {
            Preserve::NOTHING
        },
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
    };
    copy_out(filesystem.as_fs(), source, &destination, &options, told)
        .map_err(|e| filesystem.in_image(e.below(&place.path)))
}

fn source(filesystem: &Filesystem, path: &[u8], recursive: bool) -> Result<InodeNumber> {
    let follow = if recursive {
        Follow::AllButLast
    } else {
        Follow::All
    };
    let inode = filesystem.resolve(path, follow)?;
    let metadata = filesystem.as_fs().metadata(inode);
    if metadata.map_err(|e| filesystem.in_image(e))?.is_dir() && !recursive {
        let error = vfs::Error::from(vfs::ErrorKind::IsADirectory).in_path(path);
        return Err(filesystem.in_image(error.hint("give -r to copy it with what is in it")));
    }
    Ok(inode)
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

fn report(session: &mut Session, place: &Located, summary: Summary) {
    let told = summary.errors.len() as u64;
    for error in summary.errors {
        session.report(&place.filesystem.in_image(error.below(&place.path)));
    }
    if let Some(more) = summary
        .error_count
        .checked_sub(told)
        .filter(|more| *more > 0)
    {
        session.report(&Error::new(
            ErrorKind::Other,
            format!("and {more} further errors"),
        ));
    }
}

fn count(summary: &Summary) -> u64 {
    summary.files + summary.directories + summary.symlinks + summary.specials + summary.hard_links
}

impl Total {
    fn add(&mut self, summary: &Summary) {
        self.files += count(summary);
        self.bytes += summary.bytes;
        self.owners_ignored += summary.owners_ignored;
        self.xattrs_ignored += summary.xattrs_ignored;
        self.specials_ignored += summary.specials_ignored;
    }

    /// Says what could not be kept. As with `cp -a` that is no failure, but for devices.
    fn warn(&self, session: &mut Session) {
        if self.owners_ignored > 0 {
            let count = self.owners_ignored;
            session.warn(&format!(
                "{count} files are owned by you: only root gives files away"
            ));
        }
        if self.xattrs_ignored > 0 {
            let count = self.xattrs_ignored;
            session.warn(&format!(
                "{count} extended attributes could not be set here"
            ));
        }
        if self.specials_ignored > 0 {
            let reason = format!("{} device nodes were left out", self.specials_ignored);
            let error = Error::new(ErrorKind::Denied, reason);
            session.report(&error.with_hint("only root makes device nodes"));
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "files": self.files,
            "copied_bytes": self.bytes,
            "owners_ignored": self.owners_ignored,
            "xattrs_ignored": self.xattrs_ignored,
            "specials_ignored": self.specials_ignored,
        })
    }
}

fn as_path(name: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(name))
}

/// The last name of a path; `None` for the root, and for what ends in `.` or `..`.
fn base_name(path: &[u8]) -> Option<&[u8]> {
    let mut names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty());
    names
        .next_back()
        .filter(|name| *name != b"." && *name != b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_no_name() {
        for (path, name) in [
            ("/etc/fstab", Some("fstab")),
            ("/etc/", Some("etc")),
            ("/", None),
            ("", None),
            ("/etc/..", None),
        ] {
            assert_eq!(
                base_name(path.as_bytes()),
                name.map(str::as_bytes),
                "{path}"
            );
        }
    }
}
