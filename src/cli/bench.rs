//! The command `diskfs bench`.

pub(super) mod requests;

use std::io::Write;
use std::time::Duration;

use clap::Args;
use diskfs::image::{ImageSpec, WritableImage};
use diskfs::{Error, ErrorKind, Result};
use serde_json::json;

use super::bytes;
use super::operand::Operand;
use super::options::{ImageArgs, SourceArgs};
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use requests::{Disk, Flushes, RequestKind, Requests};

/// Measure how fast the disk of an image is read or written
///
/// Makes a number of requests of the same size, several of them at once, at offsets that a step
/// separates, and prints how long they took, as `qemu-img bench` does. At the end of the disk, the
/// offsets begin again at its start.
#[derive(Debug, Args)]
#[command(
    after_help = "The host's cache is used: a second run reads from memory. With -w, the requests destroy the contents
of the disk. --flush-interval makes written data durable during the run, not only at its end.

Examples:
  diskfs bench disk.qcow2
  diskfs bench -c 1000 -s 64k -S 1M -d 8 disk.qcow2
  diskfs create scratch.qcow2 1G
  diskfs bench -w --flush-interval 100 -c 10000 scratch.qcow2"
)]
pub(super) struct Bench {
    /// The image
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The number of requests
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 75_000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    count: u32,

    /// The number of requests that are under way at once, 1 to 512
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(requests::DEPTH_MAX))
    )]
    depth: u32,

    /// The offset of the first request
    #[arg(short, long, value_name = "BYTES", default_value = "0", value_parser = bytes::parse)]
    offset: u64,

    /// The length of a request
    #[arg(short, long, value_name = "SIZE", default_value = "4k", value_parser = bytes::parse)]
    size: u64,

    /// The distance between the offsets of two requests [default: the length]
    #[arg(short = 'S', long, value_name = "SIZE", value_parser = bytes::parse)]
    step: Option<u64>,

    /// Write, which destroys the contents of the disk
    #[arg(short, long)]
    write: bool,

    /// The byte to write
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    pattern: u8,

    /// Flush after this number of writes, at least as many as are under way at once
    #[arg(
        long,
        value_name = "N",
        requires = "write",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    flush_interval: Option<u32>,

    /// Do not wait for the writes that are under way before a flush
    #[arg(long, requires = "flush_interval")]
    no_drain: bool,

    #[command(flatten)]
    options: ImageArgs,
}

pub(super) fn run(args: &Bench, session: &mut Session) -> Result<()> {
    let requests = args.requests()?;
    if session.output() == Output::Text {
        let mut out = stdout()?;
        out.write_all(requests.description().as_bytes())?;
        out.flush()?;
    }
    let took = if args.write {
        args.write_to(&requests)?
    } else {
        let image = args.image.image_alone("to measure")?;
        let disk = SourceArgs::of_image(&args.options).open(&image)?;
        session.print_warnings(&disk);
        requests.make(&Disk::ReadOnly(disk.device()))?
    };
    print(args, &requests, took, session)
}

impl Bench {
    /// Returns the files of the host that the command uses, if it only reads.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        (!self.write).then(|| Needs::reading_whole(&self.image, &self.options))
    }

    fn requests(&self) -> Result<Requests> {
        let invalid = |reason: &'static str| Error::new(ErrorKind::Invalid, reason);
        let size_bytes = u32::try_from(self.size).ok().filter(|size| *size > 0);
        let size_bytes =
            size_bytes.ok_or_else(|| invalid("invalid size: expected 1 byte to 4 GiB"))?;
        let flushes = self.flush_interval.map(|interval| Flushes {
            interval,
            drains: !self.no_drain,
        });
        if flushes.is_some_and(|flushes| flushes.interval < self.depth) {
            let reason = "the flush interval is smaller than the number of requests at once";
            return Err(invalid(reason).with_hint("give a smaller --depth"));
        }
        let requests = Requests {
            count: self.count,
            depth: self.depth,
            offset: self.offset,
            size_bytes,
            step_bytes: self.step.unwrap_or(self.size),
            kind: if self.write {
                RequestKind::Write(self.pattern, flushes)
            } else {
                RequestKind::Read
            },
        };
        requests.check()?;
        Ok(requests)
    }

    fn write_to(&self, requests: &Requests) -> Result<Duration> {
        let image = self.image.image_alone("to measure")?;
        let spec = ImageSpec::parse(&image)?;
        let options = spec.options_over(&self.options.open_options()?);
        let image = WritableImage::open(&spec.path, &options)?;
        let made = requests.make(&Disk::Writable(image.device()));
        image.close()?;
        Ok(made.map_err(|e| e.in_file(&spec.path))?)
    }
}

fn print(args: &Bench, requests: &Requests, took: Duration, session: &Session) -> Result<()> {
    let mut out = stdout()?;
    let seconds = took.as_secs_f64();
    match session.output() {
        Output::Text => writeln!(out, "Run completed in {seconds:.3} seconds.")?,
        Output::Json => {
            let bytes = u64::from(requests.count) * u64::from(requests.size_bytes);
            let body = json!({
                "requests": requests.count,
                "write": args.write,
                "request_bytes": requests.size_bytes,
                "depth": requests.depth,
                "total_bytes": bytes,
                "seconds": seconds,
            });
            document::write(&mut out, session.command(), body)?;
        }
    }
    Ok(out.flush()?)
}
