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
        #[command(flatten)]
        image: Target,
    },
    /// Add a bitmap without marks
    Add {
        #[command(flatten)]
        image: Target,
        /// The name of the new bitmap
        name: String,
        /// The bytes that one mark covers, a power of two from 512 to 2G [default: the cluster
        /// size, at least 4K and at most 64K]
        #[arg(short, long, value_name = "SIZE", value_parser = bytes::parse)]
        granularity: Option<u64>,
        /// Do not mark writes before the bitmap is enabled
        #[arg(long)]
        disabled: bool,
    },
    /// Remove a bitmap, also an inconsistent one
    Remove {
        #[command(flatten)]
        bitmap: Selected,
    },
    /// Remove all marks of a bitmap
    Clear {
        #[command(flatten)]
        bitmap: Selected,
    },
    /// Mark writes from now on
    Enable {
        #[command(flatten)]
        bitmap: Selected,
    },
    /// Do not mark writes from now on
    Disable {
        #[command(flatten)]
        bitmap: Selected,
    },
    /// Add the marks of another bitmap
    Merge(Merge),
}

/// The image, and how to open it.
#[derive(Debug, Args)]
struct Target {
    /// The qcow2 image
    #[arg(value_name = "IMG")]
    image: OsString,

    #[command(flatten)]
    options: ImageArgs,
}

impl Target {
    fn open(&self) -> Result<(PathBuf, OpenOptions)> {
        open_options(&self.image, &self.options)
    }
}

/// A bitmap of an image.
#[derive(Debug, Args)]
struct Selected {
    #[command(flatten)]
    image: Target,

    /// The name of the bitmap
    name: String,
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
    #[command(flatten)]
    bitmap: Selected,

    /// The bitmap with the marks to add
    source: String,

    /// The image with the source, instead of IMG
    #[arg(short = 'b', long, value_name = "FILE")]
    source_file: Option<OsString>,

    /// The format of FILE, instead of detecting it
    #[arg(short = 'F', long, value_name = "FORMAT", requires = "source_file")]
    source_format: Option<Format>,
}

pub(super) fn run(args: &BitmapArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::List { image } => {
            let (path, options) = image.open()?;
            list(&bitmaps::list(&path, &options)?, session)
        }
        Action::Add {
            image,
            name,
            granularity,
            disabled,
        } => {
            let (path, options) = image.open()?;
            let new = NewBitmap {
                granularity_bytes: *granularity,
                recording: if *disabled {
                    Recording::Disabled
                } else {
                    Recording::Enabled
                },
            };
            let added = bitmaps::add(&path, name, new, &options)?;
            session.print_done("added bitmap", name.as_bytes());
            match session.output() {
                Output::Json => list(&[added], session),
                Output::Text => Ok(()),
            }
        }
        Action::Remove { bitmap } => {
            bitmap.change(bitmaps::remove)?;
            done(session, "removed bitmap", &bitmap.name)
        }
        Action::Clear { bitmap } => {
            bitmap.change(bitmaps::clear)?;
            done(session, "cleared bitmap", &bitmap.name)
        }
        Action::Enable { bitmap } => {
            bitmap.set(Recording::Enabled)?;
            done(session, "enabled bitmap", &bitmap.name)
        }
        Action::Disable { bitmap } => {
            bitmap.set(Recording::Disabled)?;
            done(session, "disabled bitmap", &bitmap.name)
        }
        Action::Merge(args) => {
            args.merge()?;
            done(session, "merged into bitmap", &args.bitmap.name)
        }
    }
}

impl Selected {
    fn change(
        &self,
        change: impl FnOnce(&Path, &str, &OpenOptions) -> block::Result<()>,
    ) -> Result<()> {
        let (path, options) = self.image.open()?;
        Ok(change(&path, &self.name, &options)?)
    }

    fn set(&self, recording: Recording) -> Result<()> {
        self.change(|path, name, options| bitmaps::set_recording(path, name, recording, options))
    }
}

impl Merge {
    fn merge(&self) -> Result<()> {
        let other = self.other()?;
        self.bitmap.change(|path, name, options| {
            let source = MergeSource {
                bitmap: &self.source,
                image: other
                    .as_ref()
                    .map(|(path, options)| (path.as_path(), options)),
            };
            bitmaps::merge(path, name, source, options)
        })
    }

    /// Returns the other image with the source, and the options to open it with.
    fn other(&self) -> Result<Option<(PathBuf, OpenOptions)>> {
        let Some(file) = &self.source_file else {
            return Ok(None);
        };
        let spec = ImageSpec::parse(file)?;
        let base = OpenOptions {
            format: self.source_format,
            ..self.bitmap.image.options.open_options()?
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
