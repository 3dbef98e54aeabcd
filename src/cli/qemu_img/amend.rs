//! The command `qemu-img amend`.

mod keys;

use std::ffi::OsString;

use clap::Args;

use diskfs::image::amend::{Amend as Properties, amend, check};

use keys::KeyOptions;

use super::arguments::{OpenArgs, Source, only};
use super::failure::{Failure, Result};
use super::progress::Progress;
use crate::cli::amend::change_of;
use crate::cli::random;

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

    /// Overwrite key slots in use, and remove the last key of an encrypted image
    #[arg(long)]
    force: bool,

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
        let (keys, others) = KeyOptions::of(&self.options, source.is_luks)?;
        let change = change_of(&others)?;
        if let Some(keys) = keys {
            self.change_keys(&source, &keys, change)?;
        }
        if others.is_empty() {
            return Ok(0);
        }
        let options = source.open_options()?;
        let progress = Progress::new(self.progress && !self.quiet, 0);
        let done = amend(&source.path, change, &options);
        progress.finish(done.is_ok());
        done.map_err(|e| Failure::at("Error while amending options", e))?;
        Ok(0)
    }

    /// Changes the keys of an encrypted image, which its own key must open. Fails before that if the
    /// image cannot have the properties that it gets afterwards.
    fn change_keys(&self, source: &Source, options: &KeyOptions, others: Properties) -> Result<()> {
        let to_open = |error| Failure::to_open(&source.path, error);
        let Some(known) = source.keys().map_err(to_open)? else {
            let prefix = if source.is_luks { "" } else { "encrypt." };
            let path = source.path.display();
            let reason = format!("Parameter '{prefix}key-secret' is required for cipher");
            return Err(Failure::new(format!("Could not open '{path}': {reason}")));
        };
        let change = options.change(&self.open.secrets()?, self.force)?;
        let open = source.options().map_err(to_open)?;
        if others.size_bytes.is_some() {
            let reason = "not supported by diskfs: changing the keys together with the size; use \
                          two commands";
            return Err(Failure::new(reason));
        }
        if others != Properties::default() {
            let possible = check(&source.path, others, &open);
            possible.map_err(|e| Failure::at("Error while amending options", e))?;
        }
        let mut random = |buf: &mut [u8]| Ok(random::fill(buf)?);
        let done = known.change(&source.path, &change, &open, &mut random);
        done.map_err(|e| Failure::at("Error while amending options", e))?;
        Ok(())
    }
}
