//! The command `qemu-img amend`.

use std::ffi::OsString;

use clap::Args;

use diskfs::image::amend::amend;

use super::arguments::{OpenArgs, only};
use super::failure::{Failure, Result};
use super::progress::Progress;
use crate::cli::amend::change_of;

/// Change the properties of an image in place
#[derive(Debug, Args)]
pub(super) struct Amend {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The properties to change
    #[arg(short, long, value_name = "OPTIONS")]
    options: Vec<String>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// Show the progress
    #[arg(short, long)]
    progress: bool,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    /// The mode of the host's cache, which has no effect
    #[arg(short = 't', long, value_name = "CACHE", value_parser = super::arguments::cache_mode)]
    cache: Option<()>,

    #[command(flatten)]
    open: OpenArgs,
}

impl Amend {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "amend")?;
        if self.options.is_empty() {
            return Err(Failure::usage("Must specify options (-o)", "amend"));
        }
        let source = self.open.source(name, self.format.as_deref())?;
        let change = change_of(&self.options)?;
        let options = source.open_options()?;
        let progress = Progress::new(self.progress && !self.quiet, 0);
        let done = amend(&source.path, change, &options);
        progress.finish(done.is_ok());
        done.map_err(|e| Failure::at("Error while amending options", e))?;
        Ok(0)
    }
}
