//! Arguments that several commands of qemu-img have.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use diskfs::image::{Description, Image, ProbedFormats};
use diskfs::{Format, parse_bytes};

use super::failure::{Failure, Result};
use super::names::{Named, remote_uri};
use crate::cli::options::{ImageArgs, SourceArgs};

/// The modes of the host's cache that qemu-img accepts. Diskfs uses the host's cache in all of
/// them, and makes results durable before it exits.
const CACHE_MODES: [&str; 6] = [
    "none",
    "writeback",
    "unsafe",
    "directsync",
    "writethrough",
    "off",
];

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum OutputForm {
    #[default]
    Human,
    Json,
}

/// Options that say how images are opened.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct OpenArgs {
    /// Open images that another process uses
    #[arg(short = 'U', long)]
    pub(super) force_share: bool,

    /// The key of an encrypted image (not supported)
    #[arg(long, value_name = "OBJECTDEF")]
    object: Vec<String>,

    /// Take image names as lists of options
    #[arg(long)]
    image_opts: bool,
}

/// The image of a command, with its format.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) args: SourceArgs,
}

impl OpenArgs {
    /// Returns the image of a file name as qemu-img spells it.
    pub(super) fn source(&self, name: &OsString, format: Option<&str>) -> Result<Source> {
        if !self.object.is_empty() {
            let reason = "--object: not supported by diskfs; `diskfs convert --key` opens \
                          encrypted images";
            return Err(Failure::new(reason));
        }
        let mut format = format.map(format_of).transpose()?;
        let named = if self.image_opts {
            Named::parse_options(name)?
        } else {
            Named::parse(name)?
        };
        format = named.format.or(format);
        let image = ImageArgs {
            format,
            force_share: self.force_share,
            probed: ProbedFormats::OnlyQemus,
            ..ImageArgs::default()
        };
        Ok(Source {
            path: named.path,
            args: SourceArgs {
                image,
                ..SourceArgs::default()
            },
        })
    }
}

impl Source {
    /// Opens the image with its backing files.
    pub(super) fn open(&self) -> Result<Image> {
        self.opened().map_err(|e| Failure::to_open(&self.path, e))
    }

    fn opened(&self) -> diskfs::Result<Image> {
        let options = self.args.image.open_options()?;
        Ok(Image::open(&self.path, &options)?)
    }

    /// Describes the image alone.
    pub(super) fn describe(&self) -> Result<Description> {
        let options = self.args.image.open_options()?;
        Image::describe(&self.path, &options).map_err(|e| Failure::to_open(&self.path, e))
    }
}

/// Parses the name of a format.
pub(super) fn format_of(name: &str) -> Result<Format> {
    let known = name
        .parse()
        .ok()
        .filter(|format: &Format| format.is_qemus());
    known.ok_or_else(|| Failure::new(format!("Unknown file format '{name}'")))
}

/// Returns the path of a file name: all of it, or what follows `file:`.
///
/// # Errors
/// If the name has the prefix of another protocol: letters and a colon, as in `nbd:localhost`.
pub(super) fn local_path(name: &OsString) -> Result<PathBuf> {
    let path = Named::parse(name)?.path;
    if remote_uri(&path).is_some() {
        let reason = "Could not open: not supported by diskfs: an export of NBD as a new image";
        return Err(Failure::new(reason));
    }
    Ok(path)
}

/// Parses a mode of the host's cache.
pub(super) fn cache_mode(name: &str) -> std::result::Result<(), String> {
    if CACHE_MODES.contains(&name) {
        return Ok(());
    }
    Err(format!("Invalid cache option: {name}"))
}

/// Parses a size.
pub(super) fn size(text: &str) -> Result<u64> {
    let wrong = |_| Failure::new(format!("Invalid image size specified: '{text}'."));
    parse_bytes(text).map_err(wrong)
}

/// Returns the only operand.
pub(super) fn only<'a>(names: &'a [OsString], command: &str) -> Result<&'a OsString> {
    match names {
        [name] => Ok(name),
        _ => Err(Failure::usage("Expecting one image file name", command)),
    }
}
