//! The command `diskfs commit`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;

use diskfs::Result;
use diskfs::image::commit::{Overlay, commit};
use serde_json::json;

use super::options::ImageArgs;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::snapshot::open_options;

/// Write the changes in an overlay to its backing file
#[derive(Debug, Args)]
#[command(
    after_help = "The overlay is emptied after all data is durable in the backing file, so its disk has the same
contents at every moment. It is not emptied with -d, or if it has snapshots, bitmaps or a data file.
Other overlays of the same backing file are stale afterwards, and are refused.

Example:
  diskfs commit overlay.qcow2"
)]
pub(super) struct Commit {
    /// The overlay to commit
    #[arg(value_name = "IMG")]
    image: OsString,

    /// Do not empty the overlay
    #[arg(short = 'd', long)]
    keep_overlay: bool,

    #[command(flatten)]
    options: ImageArgs,
}

pub(super) fn run(args: &Commit, session: &mut Session) -> Result<()> {
    let (path, options) = open_options(&args.image, &args.options)?;
    let wanted = if args.keep_overlay {
        Overlay::Kept
    } else {
        Overlay::Emptied
    };
    let mut progress = Progress::new(session.progress(), None);
    let advance = &mut |bytes, total| progress.advance_of(bytes, total);
    let done = commit(&path, wanted, &options, advance);
    progress.finish();
    let done = done?;
    if done.overlay != wanted {
        session.warn("the overlay was not emptied: it contains more than the current state of the disk (snapshots, bitmaps or a data file)");
    }
    if session.output() == Output::Json {
        let emptied = done.overlay == Overlay::Emptied;
        let mut out = stdout()?;
        let body = json!({ "written_bytes": done.bytes, "emptied": emptied });
        document::write(&mut out, session.command(), body)?;
        out.flush()?;
    }
    Ok(())
}
