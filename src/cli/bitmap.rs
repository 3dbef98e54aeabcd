//! The command `diskfs bitmap`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use diskfs::document::bitmap as to_json;
use diskfs::image::bitmaps::{self, MergeSource, NewBitmap, Recording};
use diskfs::image::{Bitmap, BitmapState, ImageSpec, OpenOptions};
use diskfs::{Format, Result, block};
use serde_json::{Value, json};

use super::bytes;
use super::options::ImageArgs;
use super::session::{Output, Session, name_style, stdout};
use super::show::json as document;
use super::show::name::NameStyle;
use super::snapshot::open_options;

/// List, add, change and remove dirty bitmaps of qcow2 images
#[derive(Debug, Args)]
#[command(
    after_help = "A bitmap marks the parts of the disk that were written since it was added or cleared. QEMU and
diskfs mark their writes in each enabled bitmap, so that an incremental backup can copy these parts
alone. Each action is atomic, even if it is interrupted. The image must not be in use.

Examples:
  diskfs bitmap add disk.qcow2 monday
  diskfs bitmap list disk.qcow2
  diskfs bitmap disable disk.qcow2 monday
  diskfs bitmap remove disk.qcow2 monday"
)]
pub(super) struct BitmapArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the bitmaps of an image
    List {
        /// The qcow2 image
        #[arg(value_name = "IMG")]
        image: OsString,

        #[command(flatten)]
        options: ImageArgs,
    },
    /// Add a bitmap without marks
    Add(Add),
    /// Remove a bitmap, also an inconsistent one
    Remove(Selected),
    /// Remove all marks of a bitmap
    Clear(Selected),
    /// Mark writes from now on
    Enable(Selected),
    /// Do not mark writes from now on
    Disable(Selected),
    /// Add the marks of another bitmap
    Merge(Merge),
    /// Add a bitmap to several images, at the same point in time
    Checkpoint(Checkpoint),
}

/// A bitmap of an image.
#[derive(Debug, Args)]
struct Selected {
    /// The qcow2 image
    #[arg(value_name = "IMG")]
    image: OsString,

    /// The name of the bitmap
    name: String,

    #[command(flatten)]
    options: ImageArgs,
}

/// The arguments of `add`.
#[derive(Debug, Args)]
struct Add {
    /// The qcow2 image
    #[arg(value_name = "IMG")]
    image: OsString,

    /// The name of the new bitmap
    name: String,

    /// The bytes that one mark covers, a power of two from 512 to 2G [default: the cluster size, at
    /// least 4K and at most 64K]
    #[arg(short, long, value_name = "SIZE", value_parser = bytes::parse)]
    granularity: Option<u64>,

    /// Do not mark writes before the bitmap is enabled
    #[arg(long)]
    disabled: bool,

    #[command(flatten)]
    options: ImageArgs,
}

/// The arguments of `merge`.
#[derive(Debug, Args)]
#[command(
    after_help = "Both disks must have the same size. The granularities can differ.

Examples:
  diskfs bitmap add disk.qcow2 monday
  diskfs bitmap add disk.qcow2 week
  diskfs bitmap merge disk.qcow2 week monday"
)]
struct Merge {
    /// The qcow2 image
    #[arg(value_name = "IMG")]
    image: OsString,

    /// The name of the bitmap to which the marks are added
    name: String,

    /// The name of the bitmap with the marks
    source: String,

    /// The image with the source, instead of IMG
    #[arg(short = 'b', long, value_name = "FILE")]
    source_file: Option<OsString>,

    /// The format of FILE, instead of detecting it
    #[arg(short = 'F', long, value_name = "FORMAT", requires = "source_file")]
    source_format: Option<Format>,

    #[command(flatten)]
    options: ImageArgs,
}

/// The arguments of `checkpoint`.
#[derive(Debug, Args)]
#[command(
    after_help = "No image changes before all of them are in use by this command alone and everything is prepared.
If it fails, no image has the new bitmap. If it is interrupted, some images may have it: the same
command completes it, as long as their disks were not written to since.

Example:
  diskfs bitmap checkpoint monday disk.qcow2 data.qcow2"
)]
struct Checkpoint {
    /// The name of the new bitmap, which is enabled
    name: String,

    /// The qcow2 images, such as all disks of a virtual machine
    #[arg(value_name = "IMG", required = true)]
    images: Vec<OsString>,

    /// The bytes that one mark covers, as for `add`
    #[arg(short, long, value_name = "SIZE", value_parser = bytes::parse)]
    granularity: Option<u64>,

    #[command(flatten)]
    options: ImageArgs,
}

pub(super) fn run(args: &BitmapArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::List { image, options } => {
            let (path, options) = open_options(image, options)?;
            list(&bitmaps::list(&path, &options)?, session)
        }
        Action::Add(args) => args.run(session),
        Action::Remove(bitmap) => bitmap.change(session, "removed bitmap", bitmaps::remove),
        Action::Clear(bitmap) => bitmap.change(session, "cleared bitmap", bitmaps::clear),
        Action::Enable(bitmap) => {
            bitmap.change(session, "enabled bitmap", |path, name, options| {
                bitmaps::set_recording(path, name, Recording::Enabled, options)
            })
        }
        Action::Disable(bitmap) => {
            bitmap.change(session, "disabled bitmap", |path, name, options| {
                bitmaps::set_recording(path, name, Recording::Disabled, options)
            })
        }
        Action::Merge(args) => {
            args.merge()?;
            done(session, "merged into bitmap", &args.name)
        }
        Action::Checkpoint(args) => {
            args.run()?;
            done(session, "added bitmap", &args.name)
        }
    }
}

impl Add {
    fn run(&self, session: &mut Session) -> Result<()> {
        let (path, options) = open_options(&self.image, &self.options)?;
        let new = NewBitmap {
            granularity_bytes: self.granularity,
            recording: if self.disabled {
                Recording::Disabled
            } else {
                Recording::Enabled
            },
        };
        let added = bitmaps::add(&path, &self.name, new, &options)?;
        session.print_done("added bitmap", self.name.as_bytes());
        match session.output() {
            Output::Json => list(&[added], session),
            Output::Text => Ok(()),
        }
    }
}

impl Checkpoint {
    fn run(&self) -> Result<()> {
        let images = self
            .images
            .iter()
            .map(|image| open_options(image, &self.options))
            .collect::<Result<Vec<_>>>()?;
        let images: Vec<_> = images
            .iter()
            .map(|(path, options)| (path.as_path(), options))
            .collect();
        let new = NewBitmap {
            granularity_bytes: self.granularity,
            recording: Recording::Enabled,
        };
        Ok(bitmaps::checkpoint(&images, &self.name, new)?)
    }
}

impl Selected {
    fn change(
        &self,
        session: &mut Session,
        what: &str,
        change: impl FnOnce(&Path, &str, &OpenOptions) -> block::Result<()>,
    ) -> Result<()> {
        let (path, options) = open_options(&self.image, &self.options)?;
        change(&path, &self.name, &options)?;
        done(session, what, &self.name)
    }
}

impl Merge {
    fn merge(&self) -> Result<()> {
        let (path, options) = open_options(&self.image, &self.options)?;
        let other = self.other()?;
        let source = MergeSource {
            bitmap: &self.source,
            image: other
                .as_ref()
                .map(|(path, options)| (path.as_path(), options)),
        };
        Ok(bitmaps::merge(&path, &self.name, source, &options)?)
    }

    /// Returns the other image with the source, and the options to open it with.
    fn other(&self) -> Result<Option<(PathBuf, OpenOptions)>> {
        let Some(file) = &self.source_file else {
            return Ok(None);
        };
        let spec = ImageSpec::parse(file)?;
        let base = OpenOptions {
            format: self.source_format,
            ..self.options.open_options()?
        };
        let options = spec.options_over(&base);
        Ok(Some((spec.path, options)))
    }
}

fn done(session: &mut Session, what: &str, bitmap: &str) -> Result<()> {
    session.print_done(what, bitmap.as_bytes());
    if session.output() == Output::Json {
        let mut out = stdout()?;
        document::write(&mut out, session.command(), json!({ "bitmap": bitmap }))?;
        out.flush()?;
    }
    Ok(())
}

fn list(bitmaps: &[Bitmap], session: &Session) -> Result<()> {
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let all: Vec<Value> = bitmaps.iter().map(to_json).collect();
        document::write(&mut out, session.command(), json!({ "bitmaps": all }))?;
    } else {
        let style = name_style(NameStyle::Escaped);
        for bitmap in bitmaps {
            let state = match (bitmap.state, bitmap.recording) {
                (BitmapState::Consistent, true) => "enabled",
                (BitmapState::Consistent, false) => "disabled",
                _ => "inconsistent",
            };
            write!(out, "{state}\t{}\t", bitmap.granularity_bytes)?;
            out.write_all(&style.show(bitmap.name.as_bytes()))?;
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}
