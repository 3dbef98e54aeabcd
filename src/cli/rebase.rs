//! The command `diskfs rebase`.

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

/// Change the backing file of an overlay
#[derive(Debug, Args)]
#[command(
    after_help = "Data that the old backing file has and the new one lacks is first copied into the overlay, so its
disk stays the same. With -u, only the name of the backing file is changed, and nothing is compared.
An empty FILE makes the overlay independent of any backing file.

Examples:
  diskfs rebase -b new-base.qcow2 -F qcow2 overlay.qcow2
  diskfs rebase -u -b ../images/base.qcow2 -F qcow2 overlay.qcow2
  diskfs rebase -b '' overlay.qcow2"
)]
pub(super) struct Rebase {
    /// The overlay to change
    #[arg(value_name = "IMG")]
    image: OsString,

    /// The new backing file, as the overlay will refer to it; '' for none
    #[arg(short, long, value_name = "FILE")]
    backing: OsString,

    /// The format of the new backing file
    #[arg(short = 'F', long, value_name = "FORMAT")]
    backing_format: Option<Format>,

    /// Change only the name, even if that changes the contents of the disk
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
    let advance = &mut |bytes, total| progress.advance_of(bytes, total);
    let written = rebase(&path, base.as_ref(), contents, &options, advance);
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
            let error = Error::new(ErrorKind::Invalid, "missing format of the backing file");
            return Err(error.with_hint("give -F raw or -F qcow2; `diskfs info` shows the format"));
        };
        Ok(Some(NewBase {
            name: self.backing.clone().into(),
            format,
        }))
    }
}
