//! The command `qemu-img measure`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use serde_json::{Map, Value};

use diskfs::Format;
use diskfs::block::Zeroes;
use diskfs::image::Bitmap;
use diskfs::image::convert::{Measured, measure};
use diskfs::image::create::{BackingCheck, NewImage, Preallocation};

use super::arguments::{OpenArgs, OutputForm, Source, only, size};
use super::failure::{Failure, Result};
use super::new_format::NewFormat;
use super::runner::confined;
use super::specific::write_json;

/// The length of an entry of the bitmap directory without its name.
const ENTRY_BYTES: u64 = 24;

/// Compute the size of the file that an image needs in another format
#[derive(Debug, Args)]
pub(super) struct Measure {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the image
    #[arg(short = 'f', long, value_name = "FMT")]
    format: Option<String>,

    /// The format of the new image
    #[arg(
        short = 'O',
        long = "target-format",
        value_name = "FMT",
        default_value = "raw"
    )]
    output_format: String,

    /// Options of the new image
    #[arg(short = 'o', long = "target-format-options", value_name = "OPTIONS")]
    options: Vec<String>,

    /// The size of an empty disk, instead of an image
    #[arg(short, long, value_name = "SIZE")]
    size: Option<String>,

    /// The snapshot to measure
    #[arg(short = 'l', long = "snapshot", value_name = "SNAPSHOT")]
    snapshot: Option<String>,

    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: OutputForm,

    #[command(flatten)]
    open: OpenArgs,
}

impl Measure {
    pub(super) fn run(&self) -> Result<u8> {
        let new = NewFormat::parse(&self.output_format)?;
        let format = new.contents;
        let mut settings = new.settings(&self.options)?;
        let secrets = self.open.secrets()?;
        if !new.is_luks() {
            settings.keep_only_luks()?;
        }
        new.secret(&settings, &secrets).map_err(Failure::new)?;
        settings.encrypt_to_measure()?;
        let new = settings.image(format, || Ok(BackingCheck::Skip))?;
        let (mut measured, bitmaps) = match (&self.size, self.names.as_slice()) {
            (Some(_), [_, ..]) => {
                let reason = "--size N cannot be used together with a filename";
                return Err(Failure::usage(reason, "measure"));
            }
            (None, []) => {
                let reason = "Either --size N or one filename must be specified";
                return Err(Failure::usage(reason, "measure"));
            }
            (Some(text), []) => (measure(&Zeroes::new(size(text)?), &new)?, None),
            (None, names) => {
                let name = only(names, "measure")?;
                let mut source = self.open.source(name, self.format.as_deref())?;
                source.args.image.snapshot.clone_from(&self.snapshot);
                confined(&[&source], None, || of_image(&source, &new))?
            }
        };
        let is_reserved = matches!(
            settings.preallocation,
            Preallocation::Falloc | Preallocation::Full
        );
        if is_reserved {
            measured.required_bytes = measured.fully_allocated_bytes;
        }
        self.print(measured, bitmaps.filter(|_| format == Format::Qcow2))
    }

    fn print(&self, measured: Measured, bitmaps: Option<u64>) -> Result<u8> {
        let (required, all) = (measured.required_bytes, measured.fully_allocated_bytes);
        let mut out = std::io::stdout().lock();
        match self.output {
            OutputForm::Human => {
                writeln!(out, "required size: {required}")?;
                writeln!(out, "fully allocated size: {all}")?;
                if let Some(bytes) = bitmaps {
                    writeln!(out, "bitmaps size: {bytes}")?;
                }
            }
            OutputForm::Json => {
                let mut fields = Map::new();
                let numbers = [("required", required), ("fully-allocated", all)];
                let bitmaps = bitmaps.map(|bytes| ("bitmaps", bytes));
                for (name, number) in numbers.into_iter().chain(bitmaps) {
                    fields.insert(name.to_owned(), number.into());
                }
                write_json(&mut out, &Value::Object(fields))?;
            }
        }
        out.flush()?;
        Ok(0)
    }
}

/// Measures an image. Also returns the size of its bitmaps in a qcow2 image, if it is one.
fn of_image(source: &Source, new: &NewImage) -> Result<(Measured, Option<u64>)> {
    let image = source.open()?;
    let from = image.device();
    let measured = measure(&*from, new)?;
    let (NewImage::Qcow2(new), Some(qcow2)) = (new, &image.description().qcow2) else {
        return Ok((measured, None));
    };
    let bitmaps = (qcow2.version >= 3)
        .then(|| bitmaps_bytes(&qcow2.bitmaps, from.size_bytes(), new.cluster_size_bytes));
    Ok((measured, bitmaps))
}

/// Returns the size of bitmaps in an image: of their data, their tables and their directory, each
/// in whole clusters.
fn bitmaps_bytes(bitmaps: &[Bitmap], disk_bytes: u64, cluster_bytes: u64) -> u64 {
    let in_clusters = |bytes: u64| bytes.checked_next_multiple_of(cluster_bytes).unwrap_or(0);
    let (mut total, mut directory) = (0_u64, 0_u64);
    for bitmap in bitmaps {
        let bits = disk_bytes.div_ceil(bitmap.granularity_bytes.max(1));
        let data = in_clusters(bits.div_ceil(8));
        let table = data
            .checked_div(cluster_bytes)
            .unwrap_or(0)
            .saturating_mul(8);
        total = total
            .saturating_add(data)
            .saturating_add(in_clusters(table));
        let name = u64::try_from(bitmap.name.len()).unwrap_or(0);
        let entry = name.saturating_add(ENTRY_BYTES);
        directory = directory.saturating_add(entry.next_multiple_of(8));
    }
    total.saturating_add(in_clusters(directory))
}
