//! `diskfs rebase`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;

use diskfs::image::rebase::{Contents, NewBase, rebase};
use diskfs::{Error, ErrorKind, Format, Result};
use serde_json::json;

use super::options::ImageArgs;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::snapshot::open_options;

/// Put another image behind an overlay, or none
#[derive(Debug, Args)]
#[command(
    after_help = "What the old backing file has and the new one has not is written into the overlay first, so the disk
that it shows stays the same. With -u only the name is changed, and nothing is compared. An empty FILE
makes the overlay stand by itself.

Examples:
  diskfs rebase -b new-base.qcow2 -F qcow2 overlay.qcow2
  diskfs rebase -u -b ../images/base.qcow2 -F qcow2 overlay.qcow2
  diskfs rebase -b '' overlay.qcow2"
)]
pub(super) struct Rebase {
    /// The overlay
    #[arg(value_name = "IMG")]
    image: OsString,

    /// The image to put behind it, as the overlay is to name it; '' for none
    #[arg(short, long, value_name = "FILE")]
    backing: OsString,

    /// Its format
    #[arg(short = 'F', long, value_name = "FORMAT")]
    backing_format: Option<Format>,

    /// Change the name only, whatever the disk becomes by that
    #[arg(short = 'u', long = "unsafe")]
    trust: bool,

    #[command(flatten)]
    options: ImageArgs,
}

pub(super) fn run(args: &Rebase, session: &mut Session) -> Result<()> {
    let (path, options) = open_options(&args.image, &args.options)?;
    let base = args.base()?;
    let contents = if args.trust {
        Contents::Trusted
    } else {
        Contents::Kept
    };
    let mut progress = Progress::new(session.progress(), None);
    let told = &mut |bytes, total| progress.advance_of(bytes, total);
    let written = rebase(&path, base.as_ref(), contents, &options, told);
    progress.finish();
    let written = written?;
    if session.output() == Output::Json {
        let mut out = stdout()?;
        document::write(
            &mut out,
            session.command(),
            json!({ "written_bytes": written }),
        )?;
        out.flush()?;
    }
    Ok(())
}

impl Rebase {
    fn base(&self) -> Result<Option<NewBase>> {
        if self.backing.is_empty() {
            return Ok(None);
        }
        let Some(format) = self.backing_format else {
            let error = Error::new(ErrorKind::Invalid, "the backing file's format is needed");
            return Err(error.with_hint("give -F raw or -F qcow2; `diskfs info` tells which"));
        };
        Ok(Some(NewBase {
            name: self.backing.clone().into(),
            format,
        }))
    }
}
