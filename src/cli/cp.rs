//! `diskfs cp`.

mod place;
mod tree;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::{Error, ErrorKind, Result};
use serde_json::json;

use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use place::Directory;
use tree::{Copier, Preserve};

/// Copy files out of an image
#[derive(Debug, Args)]
#[command(
    after_help = "Holes stay holes. A symlink is copied as one with -r, and followed within the image without.
Nothing is written outside of DEST, whatever the image holds. (-p is the partition here, as
everywhere; for what it is in cp(1), give --preserve.)

Examples:
  diskfs cp disk.qcow2:/etc/fstab .
  diskfs cp -a disk.qcow2:/var/log ./log
  diskfs cp disk.qcow2:/etc/hosts /etc/hostname /tmp/guest/"
)]
pub(super) struct Cp {
    /// What to copy; then where to. A file, or a directory of this machine that is there
    #[arg(required = true, num_args = 2.., value_names = ["IMG:/PATH", "DEST"])]
    operands: Vec<Operand>,

    /// Directories with all that is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,

    /// The same, and keep all there is to a file: short for -r --preserve
    #[arg(short, long)]
    archive: bool,

    /// Keep modes, times, extended attributes and hard links; owners, too, as root
    #[arg(long)]
    preserve: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Cp, session: &mut Session) -> Result<()> {
    let Some((destination, sources)) = args.operands.split_last() else {
        return Ok(());
    };
    refuse_image(destination)?;
    let destination = PathBuf::from(destination.as_os_str());
    let places = session.places(sources, &args.source);
    if places.is_empty() {
        return Ok(());
    }
    let into = destination.is_dir();
    if !into && places.len() > 1 {
        let reason = "several files go into a directory, and this is none";
        return Err(Error::new(ErrorKind::NotADirectory, reason).in_file(&destination));
    }
    let (root_path, name) = if into {
        (destination.as_path(), None)
    } else {
        split(&destination)?
    };
    let root = Directory::open(root_path)?;
    let preserve = if args.preserve || args.archive {
        Preserve::All
    } else {
        Preserve::Nothing
    };
    let mut copier = Copier::new(&root, preserve, Progress::new(session.progress(), None));
    for place in &places {
        let recursive = args.recursive || args.archive;
        if let Err(error) = copier.copy(session, place, name, recursive) {
            session.report(&error);
        }
    }
    let (files, bytes) = copier.finish();
    if session.output() == Output::Json {
        let mut out = stdout()?;
        let report = json!({ "files": files, "copied_bytes": bytes });
        document::write(&mut out, session.command(), report)?;
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

/// The directory that a new file goes into, and its name.
fn split(destination: &Path) -> Result<(&Path, Option<&[u8]>)> {
    let Some(name) = destination.file_name() else {
        let reason = "names no file to make";
        return Err(Error::new(ErrorKind::Invalid, reason).in_file(destination));
    };
    let parent = destination
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    Ok((
        parent.unwrap_or(Path::new(".")),
        Some(name.as_encoded_bytes()),
    ))
}
