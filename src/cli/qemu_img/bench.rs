//! The command `qemu-img bench`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;

use diskfs::image::WritableImage;

use super::arguments::{OpenArgs, Source, only, size};
use super::failure::{Failure, Result};
use super::runner::confined;
use crate::cli::bench::requests::{Disk, Flushes, RequestKind, Requests};

/// The largest number that an option takes.
const NUMBER_MAX: u64 = (1 << 31) - 1;

/// Measure how fast the disk of an image is read or written
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Bench {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The number of requests
    #[arg(short, long, value_name = "COUNT", default_value = "75000")]
    count: String,

    /// The number of requests that are under way at once
    #[arg(short, long, value_name = "DEPTH", default_value = "64")]
    depth: String,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// Flush after this number of writes
    #[arg(long, value_name = "N")]
    flush_interval: Option<String>,

    /// The interface of the host's system, which has no effect
    #[arg(short = 'i', long, value_name = "AIO")]
    aio: Option<String>,

    /// Use native AIO, which has no effect
    #[arg(short, long)]
    native: bool,

    /// Do not wait for the writes that are under way before a flush
    #[arg(long)]
    no_drain: bool,

    /// The offset of the first request
    #[arg(short, long, value_name = "OFFSET", default_value = "0")]
    offset: String,

    /// The byte to write
    #[arg(long, value_name = "PATTERN", default_value = "0")]
    pattern: String,

    /// Has no effect, as in qemu-img
    #[arg(short, long)]
    quiet: bool,

    /// The length of a request
    #[arg(short = 's', long, value_name = "BUFFER_SIZE", default_value = "4096")]
    buffer_size: String,

    /// The distance between the offsets of two requests
    #[arg(short = 'S', long, value_name = "STEP_SIZE", default_value = "0")]
    step_size: String,

    /// The mode of the host's cache, which has no effect
    #[arg(short = 't', long, value_name = "CACHE", value_parser = super::arguments::cache_mode)]
    cache: Option<()>,

    /// Write, which destroys the contents of the disk
    #[arg(short, long)]
    write: bool,

    #[command(flatten)]
    open: OpenArgs,
}

impl Bench {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "bench")?;
        let requests = self.requests()?;
        let source = self.open.source(name, self.format.as_deref())?;
        if self.write {
            Self::write_to(&source, &requests)?;
        } else {
            confined(&[&source], None, || {
                let disk = Disk::ReadOnly(source.open()?.device());
                Self::make(&requests, &disk)
            })?;
        }
        Ok(0)
    }

    fn requests(&self) -> Result<Requests> {
        let count = number(&self.count, "request count", 1)?;
        let depth = number(&self.depth, "queue depth", 1)?;
        let offset = size(&self.offset)
            .map_err(|_| Failure::new(format!("Invalid offset specified: '{}'.", self.offset)))?;
        let pattern = u8::try_from(number(&self.pattern, "pattern byte", 0)?);
        let pattern = pattern.map_err(|_| {
            Failure::new("Invalid pattern byte specified. Must be between 0 and 255.")
        })?;
        let size_bytes = number(&self.buffer_size, "buffer size", 1)?;
        let step = number(&self.step_size, "step size", 0)?;
        let interval = self.flush_interval.as_deref();
        let interval = interval.map_or(Ok(0), |text| number(text, "flush interval", 0))?;
        if interval > 0 && !self.write {
            let reason = "--flush-interval is only available in write tests";
            return Err(Failure::new(reason));
        }
        if interval > 0 && interval < depth {
            return Err(Failure::new("Flush interval can't be smaller than depth"));
        }
        let flushes = (interval > 0).then_some(Flushes {
            interval,
            drains: !self.no_drain,
        });
        let requests = Requests {
            count,
            depth,
            offset,
            size_bytes,
            step_bytes: if step > 0 { step } else { size_bytes }.into(),
            kind: if self.write {
                RequestKind::Write(pattern, flushes)
            } else {
                RequestKind::Read
            },
        };
        requests.check()?;
        Ok(requests)
    }

    fn write_to(source: &Source, requests: &Requests) -> Result<()> {
        let options = source.open_options()?;
        let image = WritableImage::open(&source.path, &options);
        let image = image.map_err(|e| Failure::to_open(&source.path, e))?;
        let made = Self::make(requests, &Disk::Writable(image.device()));
        image.close()?;
        made
    }

    fn make(requests: &Requests, disk: &Disk) -> Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(requests.description().as_bytes())?;
        out.flush()?;
        let took = requests.make(disk);
        let took = took.map_err(|e| Failure::at("Failed request", e))?;
        let seconds = took.as_secs_f64();
        writeln!(out, "Run completed in {seconds:.3} seconds.")?;
        Ok(out.flush()?)
    }
}

/// Parses a number of an option within QEMU's limits.
fn number(text: &str, what: &str, min: u64) -> Result<u32> {
    let wrong = |_| Failure::new(format!("Invalid {what} specified: '{text}'."));
    let number = Some(size(text).map_err(wrong)?);
    let number = number.filter(|number| (min..=NUMBER_MAX).contains(number));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| {
        Failure::new(format!(
            "Invalid {what} specified. Must be between {min} and {NUMBER_MAX}."
        ))
    })
}
