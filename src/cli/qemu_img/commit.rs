//! The command `qemu-img commit`.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::Args;

use diskfs::image::commit::{Overlay, commit};

use super::arguments::{OpenArgs, Source, only};
use super::failure::{Failure, Result};
use super::progress::Progress;

/// Write the changes in an overlay to its backing file
#[derive(Debug, Args)]
pub(super) struct Commit {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// The backing file to write to, which must be that of the image
    #[arg(short, long, value_name = "BASE")]
    base: Option<OsString>,

    /// Do not empty the overlay
    #[arg(short = 'd', long)]
    drop: bool,

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

impl Commit {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "commit")?;
        let source = self.open.source(name, self.format.as_deref())?;
        self.check_base(&source)?;
        // As with qemu-img, an overlay is kept if its base is named.
        let wanted = if self.drop || self.base.is_some() {
            Overlay::Kept
        } else {
            Overlay::Emptied
        };
        let options = source.open_options()?;
        let mut progress = Progress::new(self.progress && !self.quiet, 0);
        let advance = &mut |bytes, total| progress.advance_of(bytes, total);
        let done = commit(&source.path, wanted, &options, advance);
        progress.finish(done.is_ok());
        done.map_err(|e| Failure::to_open(&source.path, e))?;
        if !self.quiet {
            let mut out = std::io::stdout().lock();
            writeln!(out, "Image committed.")?;
            out.flush()?;
        }
        Ok(0)
    }

    /// Checks that the image has a backing file, and that it is the named one.
    fn check_base(&self, source: &Source) -> Result<()> {
        let image = source.describe()?;
        let name = image.qcow2.and_then(|qcow2| qcow2.backing_name);
        let Some(name) = name else {
            return Err(Failure::new("Image does not have a backing file"));
        };
        let Some(base) = &self.base else {
            return Ok(());
        };
        let dir = source.path.parent().unwrap_or(Path::new(""));
        if Path::new(base) != Path::new(&name) && Path::new(base) != dir.join(&name) {
            return Err(Failure::new(format!(
                "Did not find '{}' in the backing chain of '{}', or it is not its first file: \
                 diskfs commits only to that",
                base.display(),
                source.path.display()
            )));
        }
        Ok(())
    }
}
