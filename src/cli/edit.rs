//! The command `diskfs edit`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use clap::Args;

use diskfs::vfs::{Follow, InodeNumber, replace_contents};
use diskfs::{Error, ErrorKind, Result};

use super::into_dir::base_name;
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::Session;
use super::target::{TargetPlace, Targets, WriteArgs};
use super::write::regular_file;

/// The maximum size of a file to edit.
const LIMIT_BYTES: u64 = 64 << 20;

/// Edit a file with your editor
#[derive(Debug, Args)]
#[command(
    after_help = "The editor is $VISUAL, else $EDITOR, else vi. It edits a copy; if the copy has changed, it is
written back, and the file keeps its owner, mode and attributes. The image is locked while the
editor runs, and is written to only afterwards.

Example:
  EDITOR=nano diskfs edit disk.qcow2:/etc/fstab"
)]
pub(super) struct Edit {
    /// The file to edit; a symlink is followed within the image
    #[arg(value_name = "IMG:/FILE")]
    file: Operand,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Edit, session: &mut Session) -> Result<()> {
    let mut targets = Targets::new(&args.source, &args.write).in_one_transaction();
    if let Some(place) = targets.place(session, &args.file)?
        && let Err(error) = edit(session, &place)
    {
        targets.fail(session, &error);
    }
    targets.finish(session, serde_json::Map::new())
}

fn edit(session: &mut Session, place: &TargetPlace) -> Result<()> {
    let existing = contents(place)?;
    let before = existing.as_ref().map(|existing| &existing.contents);
    let directory = tempfile::Builder::new().prefix("diskfs-edit-").tempdir()?;
    // The copy has the file's own name, so that the editor recognizes its type.
    let name = base_name(&place.path).unwrap_or(b"file");
    let copy = directory.path().join(OsStr::from_bytes(name));
    let in_place = |e: std::io::Error| Error::from(e).in_file(&copy);
    if let Some(before) = before {
        fs::write(&copy, before).map_err(in_place)?;
    }
    run_editor(&copy)?;
    let after = match fs::read(&copy) {
        Ok(after) => after,
        // A new file that was not saved.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && before.is_none() => return Ok(()),
        Err(e) => return Err(in_place(e)),
    };
    if before == Some(&after) {
        session.print_done("not changed", &place.path);
        return Ok(());
    }
    let inode = match existing {
        Some(existing) => existing.inode,
        None => regular_file(place)?,
    };
    replace_contents(place.fs(), inode, &mut after.as_slice(), &mut |_| {
        ControlFlow::Continue(())
    })
    .map(|_| ())
    .map_err(|e| place.error(e.in_path(&place.path)))
}

/// The contents and metadata of an existing file.
struct Existing {
    inode: InodeNumber,
    contents: Vec<u8>,
}

/// Reads the file, or returns `None` if it is missing.
fn contents(place: &TargetPlace) -> Result<Option<Existing>> {
    match place.reader().node(&place.path, Follow::All) {
        Ok(node) => Ok(Some(Existing {
            inode: node.inode(),
            contents: node.read_at_most(LIMIT_BYTES)?,
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs the editor through the shell, as git does: the variable can contain options.
fn run_editor(copy: &Path) -> Result<()> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"));
    let mut script = editor.unwrap_or_else(|| OsString::from("vi"));
    let name = script.clone();
    script.push(" \"$@\"");
    let status = Command::new("sh")
        .arg("-c")
        .arg(&script)
        .arg(&name)
        .arg(copy)
        .status();
    let status = status.map_err(|e| Error::from(e).in_file("sh"))?;
    if status.success() {
        return Ok(());
    }
    let reason = format!("the editor `{}` failed: {status}", name.display());
    Err(Error::new(ErrorKind::Other, reason).with_hint("nothing was changed"))
}
