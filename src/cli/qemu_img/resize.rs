//! The command `qemu-img resize`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;

use diskfs::image::create::Preallocation;
use diskfs::image::{ResizeOptions, Shrink, resize};
use diskfs::luks::Luks1Details;
use diskfs::{Format, OpenOptions};

use super::arguments::{OpenArgs, Source, size};
use super::failure::{Failure, Result};
use crate::cli::image_settings::preallocation;

/// Change the size of the disk of an image
#[derive(Debug, Args)]
pub(super) struct Resize {
    /// The image, and the new size: SIZE, +SIZE or -SIZE
    #[arg(value_name = "FILE [+-]SIZE", allow_hyphen_values = true)]
    names: Vec<OsString>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// Allow a smaller size, which destroys what is past the new end
    #[arg(long)]
    shrink: bool,

    /// The preallocation of the new range: off, metadata or full
    #[arg(long, value_name = "MODE", value_parser = preallocation)]
    preallocation: Option<Preallocation>,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    open: OpenArgs,
}

const SECTOR_BYTES: u64 = 512;

/// The new size of a disk.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    To(u64),
    By(u64),
    Less(u64),
}

impl Resize {
    pub(super) fn run(&self) -> Result<u8> {
        let [name, text] = self.names.as_slice() else {
            let reason = "Expecting image file name and size";
            return Err(Failure::usage(reason, "resize"));
        };
        let source = self.open.source(name, self.format.as_deref())?;
        let wanted = wanted(&text.to_string_lossy())?;
        let (bytes, options) = if source.is_luks {
            self.of_volume(&source, wanted)?
        } else {
            self.of_image(&source, wanted)?
        };
        let how = ResizeOptions {
            shrink: if self.shrink {
                Shrink::Allowed
            } else {
                Shrink::Refused
            },
            preallocation: self.preallocation.unwrap_or_default(),
        };
        resize(&source.path, bytes, how, &options)?;
        if !self.quiet {
            let mut out = std::io::stdout().lock();
            writeln!(out, "Image resized.")?;
            out.flush()?;
        }
        Ok(0)
    }

    /// Returns the new size of an image, and the options for opening it.
    fn of_image(&self, source: &Source, wanted: Wanted) -> Result<(u64, OpenOptions)> {
        let image = source.describe()?;
        let bytes = self.new_size(image.virtual_size_bytes, wanted)?;
        if image.format == Some(Format::Qcow2) && !bytes.is_multiple_of(SECTOR_BYTES) {
            let reason = "The new size must be a multiple of 512";
            return Err(Failure::new(reason));
        }
        Ok((bytes, source.open_options()?))
    }

    /// Returns the new size of the file that is a LUKS volume, and the options for opening it. Like
    /// qemu-img, it demands the key.
    fn of_volume(&self, source: &Source, wanted: Wanted) -> Result<(u64, OpenOptions)> {
        let disk = source.open()?.device();
        let bytes = self.new_size(disk.size_bytes(), wanted)?;
        let header = Luks1Details::read(&*source.file(&source.path)?)?;
        let start = header.map(|header| header.payload_offset_bytes);
        let file_bytes = start.and_then(|start| start.checked_add(bytes));
        let too_large = || Failure::new("Required too big image size");
        let options = OpenOptions {
            format: Some(Format::Raw),
            ..source.options()?
        };
        Ok((file_bytes.ok_or_else(too_large)?, options))
    }

    /// Returns the new size in bytes, and checks that a smaller one is allowed.
    fn new_size(&self, old: u64, wanted: Wanted) -> Result<u64> {
        let new = match wanted {
            Wanted::To(bytes) => Some(bytes),
            Wanted::By(bytes) => old.checked_add(bytes),
            Wanted::Less(bytes) => old.checked_sub(bytes),
        };
        let new = new.filter(|bytes| *bytes > 0);
        let new = new.ok_or_else(|| Failure::new("New image size must be positive"))?;
        if new < old && !self.shrink {
            let mut errors = std::io::stderr().lock();
            let warning = "warning: Shrinking an image will delete all data beyond the shrunken \
                           image's end. Before performing such an operation, make sure there is \
                           no important data there.";
            let _ = writeln!(errors, "qemu-img: {warning}"); // A failure here cannot be reported.
            return Err(Failure::new(
                "Use the --shrink option to perform a shrink operation.",
            ));
        }
        Ok(new)
    }
}

fn wanted(text: &str) -> Result<Wanted> {
    Ok(if let Some(text) = text.strip_prefix('+') {
        Wanted::By(size(text)?)
    } else if let Some(text) = text.strip_prefix('-') {
        Wanted::Less(size(text)?)
    } else {
        Wanted::To(size(text)?)
    })
}
