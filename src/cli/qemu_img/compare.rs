//! The command `qemu-img compare`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;

use diskfs::image::convert::compare;
use diskfs::image::{Map, MapEntry};

use super::arguments::{OpenArgs, Source};
use super::failure::{Failure, Result};
use super::progress::Progress;
use super::runner::confined;

/// The exit codes of `qemu-img compare`.
const DIFFERENT: u8 = 1;
const TROUBLE: u8 = 2;

/// Compare the contents of two images
#[derive(Debug, Args)]
pub(super) struct Compare {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the first image
    #[arg(short = 'f', long = "a-format", value_name = "FMT")]
    format: Option<String>,

    /// The format of the second image
    #[arg(short = 'F', long = "b-format", value_name = "FMT")]
    second_format: Option<String>,

    /// Images of different sizes, or with other allocated ranges, differ
    #[arg(short, long)]
    strict: bool,

    /// Show the progress
    #[arg(short, long)]
    progress: bool,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    /// The mode of the host's cache, which has no effect
    #[arg(short = 'T', long, value_name = "CACHE", value_parser = super::arguments::cache_mode)]
    cache: Option<()>,

    #[command(flatten)]
    open: OpenArgs,
}

impl Compare {
    pub(super) fn run(&self) -> Result<u8> {
        let [one, other] = self.names.as_slice() else {
            return Err(Failure::usage("Expecting two image file names", "compare"));
        };
        let one = self.open.source(one, self.format.as_deref())?;
        let other = self.open.source(other, self.second_format.as_deref())?;
        let compared = confined(&[&one, &other], None, || self.compare(&one, &other));
        compared.map_err(|failure| failure.with_code(TROUBLE))
    }

    fn compare(&self, one: &Source, other: &Source) -> Result<u8> {
        let images = (one.open()?, other.open()?);
        let (one, other) = (images.0.device(), images.1.device());
        let (first, second) = (in_sectors(one.size_bytes()), in_sectors(other.size_bytes()));
        if self.strict && first != second {
            self.say("Strict mode: Image size mismatch!")?;
            return Ok(DIFFERENT);
        }
        let other_status = if self.strict {
            let found = first_other_status(images.0.map(), images.1.map(), first);
            found.map_err(|e| Failure::at("Error while comparing", e))?
        } else {
            None
        };
        let mut progress = Progress::new(self.progress && !self.quiet, first.max(second));
        let advance = &mut |bytes| progress.advance(bytes);
        let compared = compare(&*one, &*other, None, advance);
        let common = first.min(second);
        let is_past_common = |at: &Option<u64>| at.is_none_or(|at| at >= common);
        if first != second && compared.as_ref().is_ok_and(is_past_common) {
            self.say("Warning: Image size mismatch!")?;
        }
        progress.finish(compared.is_ok());
        let content = compared.map_err(|e| Failure::at("Error while comparing", e))?;
        let difference = match (content, other_status) {
            (None, None) => return self.say("Images are identical.").map(|()| 0),
            (Some(at), status) if status.is_none_or(|status| at < status) => {
                format!("Content mismatch at offset {at}!")
            }
            (_, status) => {
                let at = status.unwrap_or_default();
                format!("Strict mode: Offset {at} block status mismatch!")
            }
        };
        self.say(&difference)?;
        Ok(DIFFERENT)
    }

    fn say(&self, text: &str) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }
}

/// Rounds the size of a disk up to whole sectors, as qemu-img does before it compares two.
fn in_sectors(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(512).unwrap_or(bytes)
}

/// Returns the first offset at which two disks of one size are not allocated alike, if any. As in
/// QEMU, a run up to the end of the disk differs from a shorter one.
fn first_other_status(one: Map, other: Map, size_bytes: u64) -> diskfs::block::Result<Option<u64>> {
    let end = |entry: &MapEntry| entry.start.saturating_add(entry.len_bytes);
    let status = |it: &MapEntry| {
        let is_last = end(it) >= size_bytes;
        (it.present, it.zero, it.data, it.compressed, is_last)
    };
    let (mut ones, mut others) = (one, other);
    let mut runs = (ones.next().transpose()?, others.next().transpose()?);
    while let (Some(first), Some(second)) = &runs {
        if status(first) != status(second) {
            return Ok(Some(first.start.max(second.start)));
        }
        let (first_end, second_end) = (end(first), end(second));
        if first_end <= second_end {
            runs.0 = ones.next().transpose()?;
        }
        if second_end <= first_end {
            runs.1 = others.next().transpose()?;
        }
    }
    Ok(None)
}
