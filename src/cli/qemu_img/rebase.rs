//! The command `qemu-img rebase`.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use diskfs::image::rebase::{Contents, NewBase, rebase};

use super::arguments::{OpenArgs, format_of, only};
use super::failure::{Failure, Result};
use super::progress::Progress;

/// Change the backing file of an image
#[derive(Debug, Args)]
pub(super) struct Rebase {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// The new backing file; '' for none
    #[arg(short, long, value_name = "FILE")]
    backing: Option<OsString>,

    /// The format of the new backing file
    #[arg(short = 'B', short_alias = 'F', long, value_name = "FMT")]
    backing_format: Option<String>,

    /// Change only the name
    #[arg(short = 'u', long)]
    backing_unsafe: bool,

    /// Show the progress
    #[arg(short, long)]
    progress: bool,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    /// The modes of the host's cache, which have no effect
    #[arg(short = 't', long, value_name = "CACHE", action = ArgAction::Append,
          value_parser = super::arguments::cache_mode)]
    cache: Vec<()>,
    #[arg(short = 'T', long, value_name = "CACHE", action = ArgAction::Append,
          value_parser = super::arguments::cache_mode, hide = true)]
    source_cache: Vec<()>,

    #[command(flatten)]
    open: OpenArgs,
}

impl Rebase {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "rebase")?;
        let source = self.open.source(name, self.format.as_deref())?;
        let base = self.base()?;
        let contents = if self.backing_unsafe {
            Contents::Trusted
        } else {
            Contents::Kept
        };
        let options = source.open_options()?;
        let mut progress = Progress::new(self.progress && !self.quiet, 0);
        let advance = &mut |bytes, total| progress.advance_of(bytes, total);
        let done = rebase(&source.path, base.as_ref(), contents, &options, advance);
        progress.finish(done.is_ok());
        done.map_err(|e| Failure::to_open(&source.path, e))?;
        Ok(0)
    }

    /// Returns the new backing file. Its format is never detected.
    fn base(&self) -> Result<Option<NewBase>> {
        let Some(name) = &self.backing else {
            return Err(Failure::usage(
                "backing file (-b) must be specified",
                "rebase",
            ));
        };
        if name.is_empty() {
            return Ok(None);
        }
        let format = self.backing_format.as_deref().map(format_of).transpose()?;
        let Some(format) = format else {
            let reason = "Could not change the backing file: backing format must be specified";
            return Err(Failure::new(reason));
        };
        Ok(Some(NewBase {
            name: name.into(),
            format,
        }))
    }
}
