//! The command `qemu-img convert`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use clap::{ArgAction, Args};

use diskfs::image::bitmaps::{BitmapSet, Inconsistent, check_copy, copy};
use diskfs::image::convert::{ConvertOptions, Packing, convert, convert_into};
use diskfs::image::create::{BackingCheck, Existing};
use diskfs::image::{Image, WritableImage};
use diskfs::{Format, block::BlockRead, parse_bytes};

use super::arguments::{OpenArgs, Source, format_of, size};
use super::failure::{Failure, Result, warn};
use super::names::remote_uri;
use super::new_format::NewFormat;
use super::progress::Progress;
use super::runner::{confined, text};
use super::target::Target;
use crate::cli::convert::Reading;
use crate::cli::image_settings::ImageSettings;
use crate::cli::options::configured;

/// The default granularity at which zeroes are not stored.
const SPARSE_BYTES: u64 = 4 << 10;

/// The largest granularity that diskfs has; qemu-img has larger ones.
const SPARSE_MAX_BYTES: u64 = 1 << 20;

/// The largest number of threads that qemu-img accepts.
const COROUTINES_MAX: u64 = 16;

/// Copy an image into a new one, which replaces an existing file
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Convert {
    /// The image to copy, and the new one
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the image to copy
    #[arg(short = 'f', long = "source-format", value_name = "FMT")]
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
    #[arg(short = 'o', long = "target-options", value_name = "OPTIONS")]
    options: Vec<String>,

    /// Compress the clusters of the new image
    #[arg(short, long)]
    compress: bool,

    /// The backing file of the new image
    #[arg(short = 'B', long = "backing", value_name = "FILE")]
    backing: Option<OsString>,

    /// The format of the backing file of the new image
    #[arg(short = 'F', long, value_name = "FMT")]
    backing_format: Option<String>,

    /// The smallest run of zeroes that is not stored
    #[arg(short = 'S', long = "sparse-size", value_name = "SIZE")]
    sparse: Option<String>,

    /// The number of pieces that are copied at the same time
    #[arg(short = 'm', long = "parallel", value_name = "N")]
    coroutines: Option<u64>,

    /// Write in any order, which has no effect
    #[arg(short = 'W', long = "oob-writes")]
    unordered: bool,

    /// Do not create the new image, which exists
    #[arg(short = 'n', long)]
    no_create: bool,

    /// With -n, take the name of the target as a list of options
    #[arg(long)]
    target_image_opts: bool,

    /// With -n, assume that the target reads as zeroes
    #[arg(long, requires = "no_create")]
    target_is_zero: bool,

    /// The snapshot to copy
    #[arg(short = 'l', long = "snapshot", value_name = "SNAPSHOT")]
    snapshot: Option<String>,

    /// Let the host copy; done without this option where the host can share blocks
    #[arg(short = 'C')]
    offload: bool,

    /// Replace what cannot be read with zeroes
    #[arg(long)]
    salvage: bool,

    /// The largest number of bytes to copy per second
    #[arg(short, long, value_name = "RATE")]
    rate_limit: Option<String>,

    /// Copy the bitmaps of the image to the new one
    #[arg(long)]
    bitmaps: bool,

    /// Leave out bitmaps that were not saved properly
    #[arg(long, requires = "bitmaps")]
    skip_broken_bitmaps: bool,

    /// Show the progress
    #[arg(short, long)]
    progress: bool,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    /// The modes of the host's cache, which have no effect
    #[arg(short = 't', long = "target-cache", value_name = "CACHE", action = ArgAction::Append,
          value_parser = super::arguments::cache_mode)]
    target_cache: Vec<()>,
    #[arg(short = 'T', long = "source-cache", value_name = "CACHE", action = ArgAction::Append,
          value_parser = super::arguments::cache_mode, hide = true)]
    source_cache: Vec<()>,

    #[command(flatten)]
    open: OpenArgs,
}

impl Convert {
    pub(super) fn run(&self) -> Result<u8> {
        let (source, target) = self.operands()?;
        let path = &target.path;
        let options = self.convert_options(path)?;
        let writes_into = self.no_create || is_device(path) || remote_uri(path).is_some();
        let output = (!writes_into && self.backing.is_none()).then_some(path.as_path());
        match output {
            Some(path) => confined(&[&source], Some(path), || {
                self.copy(&source, &target, &options, false)
            }),
            None => self.copy(&source, &target, &options, writes_into),
        }?;
        Ok(0)
    }

    fn operands(&self) -> Result<(Source, Target)> {
        if self.target_image_opts && !self.no_create {
            let reason = "--target-image-opts requires use of -n flag";
            return Err(Failure::new(reason));
        }
        match self.names.as_slice() {
            [source, target] => {
                let mut source = self.open.source(source, self.format.as_deref())?;
                source.args.image.snapshot = self.snapshot.as_deref().map(snapshot_name);
                Ok((source, self.target(target)?))
            }
            [] | [_] => Err(Failure::usage("Must specify image file name", "convert")),
            _ => Err(Failure::new(
                "not supported by diskfs: several images that are joined to one",
            )),
        }
    }

    /// Returns the new image, or the image or export into which is written.
    fn target(&self, name: &OsString) -> Result<Target> {
        let secrets = self.open.secrets()?;
        let target = if self.target_image_opts {
            Target::of_options(name, &secrets)?
        } else {
            Target::of_name(name, &self.output_format)?
        };
        let is_created = !self.no_create && self.output_format != "raw";
        if remote_uri(&target.path).is_some() && (is_created || self.bitmaps) {
            let reason = "not supported by diskfs: creating an image of this format, or bitmaps, \
                          in an export of NBD; write into one that exists by -n";
            return Err(Failure::new(reason));
        }
        Ok(target)
    }

    fn convert_options(&self, target: &Path) -> Result<ConvertOptions> {
        let failed = |error: diskfs::Error| Failure::at(&text(target), error);
        let new = NewFormat::parse(&self.output_format)?;
        let format = new.contents;
        let mut settings = new.settings(&self.options).map_err(failed)?;
        let backing = self.backing.as_ref().map(Into::into);
        let named = self.backing_format.as_deref().map(format_of).transpose()?;
        settings.override_backing(backing.as_ref(), named);
        if self.compress && format == Format::Raw {
            return Err(Failure::new(
                "Compression not supported for this file format",
            ));
        }
        if self.no_create && !self.options.is_empty() {
            let reason = "-o has no effect when skipping image creation";
            return Err(Failure::new(reason));
        }
        if self.no_create {
            settings = ImageSettings::default();
        } else {
            new.encrypt(&mut settings, &self.open.secrets()?, target)?;
        }
        let check = || configured().map(BackingCheck::Open);
        Ok(ConvertOptions {
            image: settings.image(format, check).map_err(failed)?,
            packing: self.compress.then_some(Packing { level: None }),
            preallocation: settings.preallocation,
            sparse_bytes: self.sparse_bytes()?,
            threads: self.threads()?,
            existing: Existing::Replace,
            ..ConvertOptions::default()
        })
    }

    fn sparse_bytes(&self) -> Result<Option<u64>> {
        let Some(text) = &self.sparse else {
            return Ok(Some(SPARSE_BYTES));
        };
        match size(text).map_err(|_| Failure::new(format!("Invalid sparse size: '{text}'")))? {
            0 => Ok(None),
            bytes if bytes % 512 != 0 => Err(Failure::new(
                "Invalid buffer size for sparse output specified. Valid sizes are multiples of 512",
            )),
            // Runs are found at a finer granularity, so more of them are not stored.
            bytes => Ok(Some(prev_power_of_two(bytes).min(SPARSE_MAX_BYTES))),
        }
    }

    fn rate(&self) -> Result<u64> {
        let rate = self.rate_limit.as_deref().map_or(Ok(0), parse_bytes);
        rate.map_err(|_| {
            let text = self.rate_limit.as_deref().unwrap_or_default();
            Failure::new(format!("Invalid rate limit specified: '{text}'."))
        })
    }

    fn threads(&self) -> Result<Option<NonZeroUsize>> {
        match self.coroutines {
            None => Ok(None),
            Some(count) if (1..=COROUTINES_MAX).contains(&count) => {
                Ok(usize::try_from(count).ok().and_then(NonZeroUsize::new))
            }
            Some(_) => Err(Failure::new(
                "Invalid number of coroutines. Allowed number of coroutines is between 1 and 16",
            )),
        }
    }

    fn copy(
        &self,
        source: &Source,
        target: &Target,
        options: &ConvertOptions,
        writes_into: bool,
    ) -> Result<()> {
        let rate = self.rate()?;
        if self.offload && (self.compress || self.salvage || self.sparse.is_some()) {
            let reason = "Cannot use copy offloading (-C) with -c, -S or --salvage";
            return Err(Failure::new(reason));
        }
        let image = source.open()?;
        let mut options = options.clone();
        options.bitmaps = self.bitmap_set(&image)?;
        options.shared = image.raw_file().filter(|_| !self.salvage && rate == 0);
        let options = &options;
        let reading = Reading::new(image.device(), self.salvage, rate);
        let from = reading.device().as_ref();
        let mut progress = Progress::new(self.progress && !self.quiet, from.size_bytes());
        let failed = |error: diskfs::block::Error| Failure::at("error while converting", error);
        let done = if writes_into {
            self.copy_into(from, target, options, &mut progress)
        } else {
            let advance = &mut |bytes| progress.advance(bytes);
            convert(from, &target.path, options, advance).map_err(failed)
        };
        progress.finish(done.is_ok());
        if done.is_ok() && !self.quiet {
            reading.warnings().iter().for_each(|warning| warn(warning));
        }
        done
    }

    /// Returns the bitmaps to copy, if any are, and prints which are left out.
    fn bitmap_set(&self, image: &Image) -> Result<Option<BitmapSet>> {
        if !self.bitmaps {
            return Ok(None);
        }
        let inconsistent = if self.skip_broken_bitmaps {
            Inconsistent::Skipped
        } else {
            Inconsistent::Refused
        };
        let set = BitmapSet::of(image, inconsistent)?;
        for name in set.skipped() {
            warn(&format!("Skipping inconsistent bitmap '{name}'"));
        }
        Ok(Some(set))
    }

    /// Writes into an image or a device that exists.
    fn copy_into(
        &self,
        from: &dyn BlockRead,
        target: &Target,
        options: &ConvertOptions,
        progress: &mut Progress,
    ) -> Result<()> {
        let open = target.open_options()?;
        let image = WritableImage::open(&target.path, &open);
        let image = image.map_err(|e| Failure::to_open(&target.path, e))?;
        if let Some(bitmaps) = &options.bitmaps {
            check_copy(&image, bitmaps)?;
        }
        let device = target.contents(&image)?;
        let advance = &mut |bytes| progress.advance(bytes);
        let written = convert_into(from, &*device, self.target_is_zero, options, advance);
        written.map_err(|e| Failure::at("error while converting", e))?;
        drop(device);
        image.close()?;
        match &options.bitmaps {
            Some(bitmaps) => Ok(copy(&target.path, bitmaps, &open)?),
            None => Ok(()),
        }
    }
}

/// Returns the name of a snapshot: of `snapshot.name=NAME`, `snapshot.id=ID`, or a plain name.
fn snapshot_name(text: &str) -> String {
    let name = text.strip_prefix("snapshot.name=");
    let name = name.or_else(|| text.strip_prefix("snapshot.id="));
    name.unwrap_or(text).to_owned()
}

fn is_device(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Returns the largest power of two that is not larger.
const fn prev_power_of_two(number: u64) -> u64 {
    match number.checked_ilog2() {
        Some(bits) => 1 << bits,
        None => 0,
    }
}
