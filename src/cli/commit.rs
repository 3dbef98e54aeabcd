//! `diskfs commit`.

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

/// Write what an overlay holds into the image behind it
#[derive(Debug, Args)]
#[command(
    after_help = "The overlay is emptied when everything is durable below, so the disk that it shows is the same at
every moment. It is kept as it is with -d, and when it has snapshots, bitmaps or a data file.
Other overlays of the image behind it are stale afterwards, and refused.

Example:
  diskfs commit overlay.qcow2"
)]
pub(super) struct Commit {
    /// The overlay
    #[arg(value_name = "IMG")]
    image: OsString,

    /// Don't empty the overlay
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
    let told = &mut |bytes, total| progress.advance_of(bytes, total);
    let done = commit(&path, wanted, &options, told);
    progress.finish();
    let done = done?;
    if done.overlay != wanted {
        session.warn("the overlay was not emptied: it holds more than the disk's current state");
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
