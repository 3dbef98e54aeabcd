//! The command `qemu-img dd`.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use clap::Args;

use diskfs::block::{BlockRead, Slice};
use diskfs::image::convert::{ConvertOptions, convert};
use diskfs::image::create::{BackingCheck, Existing};

use super::arguments::{OpenArgs, Source, format_of, local_path, size};
use super::failure::{Failure, Result};
use super::runner::{confined, text};
use crate::cli::image_settings::ImageSettings;

/// The default block size.
const BLOCK_BYTES: u64 = 512;

/// Copy a part of an image into a new one, which replaces an existing file
#[derive(Debug, Args)]
pub(super) struct Dd {
    /// The operands of dd: if=FILE, of=FILE, bs=SIZE, count=N, skip=N. As with qemu-img, the blocks
    /// that are skipped are a part of the count
    #[arg(value_name = "NAME=VALUE")]
    operands: Vec<OsString>,

    /// The format of the image to copy
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// The format of the new image
    #[arg(short = 'O', long, value_name = "FMT", default_value = "raw")]
    output_format: String,

    #[command(flatten)]
    open: OpenArgs,
}

/// The operands.
#[derive(Debug)]
struct Operands {
    from: OsString,
    to: OsString,
    block_bytes: u64,
    count: Option<u64>,
    skip: u64,
}

impl Dd {
    pub(super) fn run(&self) -> Result<u8> {
        let operands = Operands::parse(&self.operands)?;
        let source = self.open.source(&operands.from, self.format.as_deref())?;
        let target = local_path(&operands.to)?;
        let format = format_of(&self.output_format)?;
        let options = ConvertOptions {
            image: ImageSettings::default().image(format, || Ok(BackingCheck::Skip))?,
            existing: Existing::Replace,
            ..ConvertOptions::default()
        };
        confined(&[&source], Some(&target), || {
            copy(&source, &target, &operands, &options)
        })?;
        Ok(0)
    }
}

fn copy(
    source: &Source,
    target: &Path,
    operands: &Operands,
    options: &ConvertOptions,
) -> Result<()> {
    let disk = source.open()?.device();
    let (start, len) = operands.range(disk.size_bytes());
    if start > disk.size_bytes() {
        // It is no failure for qemu-img, which makes an empty image.
        let name = source.path.display();
        Failure::new(format!("{name}: cannot skip to specified offset")).print();
    }
    let start = start.min(disk.size_bytes());
    let part: Arc<dyn BlockRead> = Arc::new(Slice::new(disk, start, len)?);
    let copied = convert(&*part, target, options, &mut |_| ControlFlow::Continue(()));
    copied.map_err(|e| Failure::at(&text(target), e))
}

impl Operands {
    fn parse(words: &[OsString]) -> Result<Self> {
        let (mut from, mut to, mut bs, mut count, mut skip) = (None, None, None, None, None);
        for word in words {
            let word = word.to_string_lossy();
            let unknown = || Failure::new(format!("unrecognized operand {word}"));
            let (name, value) = word.split_once('=').ok_or_else(unknown)?;
            let number = || {
                let wrong = |_| Failure::new(format!("invalid number: '{value}'"));
                size(value).map_err(wrong)
            };
            match name {
                "if" => from = Some(value.into()),
                "of" => to = Some(value.into()),
                "bs" => bs = Some(number()?),
                "count" => count = Some(number()?),
                "skip" => skip = Some(number()?),
                _ => return Err(unknown()),
            }
        }
        let (Some(from), Some(to)) = (from, to) else {
            return Err(Failure::new(
                "Must specify both input and output file names",
            ));
        };
        let block_bytes = bs.unwrap_or(BLOCK_BYTES);
        if !(1..=u64::from(i32::MAX.unsigned_abs())).contains(&block_bytes) {
            return Err(Failure::new(format!("invalid number: '{block_bytes}'")));
        }
        Ok(Self {
            from,
            to,
            block_bytes,
            count,
            skip: skip.unwrap_or(0),
        })
    }

    /// Returns the offset and the length of the part to copy, in bytes.
    fn range(&self, size_bytes: u64) -> (u64, u64) {
        let count = self
            .count
            .map(|count| count.saturating_mul(self.block_bytes));
        let end = count.map_or(size_bytes, |end| end.min(size_bytes));
        let start = self.skip.saturating_mul(self.block_bytes);
        (start, end.saturating_sub(start))
    }
}
