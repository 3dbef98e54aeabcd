//! Arguments that several commands of qemu-img have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use diskfs::block::BlockRead;
use diskfs::image::{Access, Description, Image, ProbedFormats};
use diskfs::luks::Key;
use diskfs::{ErrorKind, Format, Keys, OpenOptions, parse_bytes};

use super::failure::{Failure, Result};
use super::luks::{self, LuksHeaders};
use super::names::{LUKS, Named, remote_uri};
use super::runner::text;
use super::secret::Secrets;
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

    /// Define the key of an encrypted image: secret,id=NAME and data=TEXT or file=FILE
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
    /// The key of the image; the message if its secret is not defined.
    pub(super) keys: Option<std::result::Result<Keys, String>>,
    /// The keys of its backing files, with their depth in the chain.
    backing_keys: Vec<(usize, Key)>,
    /// True if the disk is what a LUKS volume contains.
    pub(super) is_luks: bool,
}

impl OpenArgs {
    /// Returns the secrets of the command line.
    pub(super) fn secrets(&self) -> Result<Secrets> {
        Secrets::parse(&self.object)
    }

    /// Returns the image of a file name as qemu-img spells it.
    pub(super) fn source(&self, name: &OsString, format: Option<&str>) -> Result<Source> {
        let secrets = Secrets::parse(&self.object)?;
        let mut named = if self.image_opts {
            Named::parse_options(name)?
        } else {
            Named::parse(name)?
        };
        let format = match (named.format, format) {
            (Some(format), _) => Some(format),
            (None, Some(LUKS)) => {
                named.is_luks = true;
                Some(Format::Raw)
            }
            (None, other) => other.map(format_of).transpose()?,
        };
        let keys = secrets.keys_of(&named);
        let backing_keys = secrets.backing_keys(&named)?;
        let image = ImageArgs {
            format,
            force_share: self.force_share,
            probed: ProbedFormats::OnlyQemus,
            ..ImageArgs::default()
        };
        Ok(Source {
            path: named.path,
            keys,
            backing_keys,
            is_luks: named.is_luks,
            args: SourceArgs {
                image,
                ..SourceArgs::default()
            },
        })
    }
}

impl Source {
    /// Returns the options for opening the image, with its key.
    ///
    /// # Errors
    /// For a LUKS volume, which is only read.
    pub(super) fn open_options(&self) -> Result<OpenOptions> {
        if self.is_luks {
            let reason = "not supported by diskfs: this command with the driver luks";
            return Err(Failure::at(&text(&self.path), unsupported(reason)));
        }
        Ok(self.options()?)
    }

    /// Returns the options for opening the image, or the file that is a LUKS volume, with its key.
    pub(super) fn options(&self) -> diskfs::Result<OpenOptions> {
        let mut options = self.args.image.open_options()?;
        if let Some(keys) = self.keys()? {
            options.unlock = Some(Arc::new(keys));
        }
        Ok(options)
    }

    /// Returns the key of the image, if its name names one.
    pub(super) fn keys(&self) -> diskfs::Result<Option<Keys>> {
        let keys = self.keys.clone().transpose();
        let mut keys = keys.map_err(|reason| diskfs::Error::new(ErrorKind::NotFound, reason))?;
        for (depth, key) in &self.backing_keys {
            let path = self.backing_path(*depth)?;
            let name = path.to_string_lossy();
            keys = Some(keys.unwrap_or_default().with_volume(name, key.clone()));
        }
        Ok(keys)
    }

    /// Returns the path of a backing file by its depth in the chain.
    fn backing_path(&self, depth: usize) -> diskfs::Result<PathBuf> {
        let image = Image::open(&self.path, &self.args.image.open_options()?)?;
        let top = Some(image.description());
        let mut chain = std::iter::successors(top, |image| image.backing.as_deref());
        let backing = chain.nth(depth).map(|image| image.path.clone());
        let missing = "an option names a backing file that the image does not have";
        backing.ok_or_else(|| diskfs::Error::new(ErrorKind::Invalid, missing))
    }

    /// Opens the image with its backing files, and with the keys of all that are encrypted.
    pub(super) fn open(&self) -> Result<Image> {
        let image = self.opened().map_err(|e| Failure::to_open(&self.path, e))?;
        if let Some(option) = luks::missing_key(&image, self)? {
            let path = self.path.display();
            let reason = format!("Parameter '{option}' is required for cipher");
            return Err(Failure::new(format!("Could not open '{path}': {reason}")));
        }
        Ok(image)
    }

    fn opened(&self) -> diskfs::Result<Image> {
        let options = self.options()?;
        if !self.is_luks {
            return Ok(Image::open(&self.path, &options)?);
        }
        let raw = OpenOptions {
            format: Some(Format::Raw),
            ..options.clone()
        };
        let device = Image::open(&self.path, &raw)?.device();
        let device = match self.keys()? {
            Some(keys) => keys.contents(&self.path, luks::whole_sectors(device))?,
            None => device,
        };
        Ok(Image::from_named_device(&self.path, device, &options)?)
    }

    /// Describes the image with its backing files, whose data need not be unlocked: `headers` gets
    /// their LUKS headers.
    pub(super) fn describe_chain(&self, headers: &Arc<LuksHeaders>) -> Result<Description> {
        let options = OpenOptions {
            unlock: Some(headers.clone()),
            ..self.options()?
        };
        let image = Image::open(&self.path, &options);
        let image = image.map_err(|e| Failure::to_open(&self.path, e))?;
        Ok(image.description().clone())
    }

    /// Returns the device with the bytes of a file of this host.
    pub(super) fn file(&self, path: &Path) -> diskfs::Result<Arc<dyn BlockRead>> {
        let files = self.options()?.files;
        Ok(Arc::new(files.open(path, Access::Read)?))
    }

    /// Describes the image alone.
    pub(super) fn describe(&self) -> Result<Description> {
        let options = self.options()?;
        Image::describe(&self.path, &options).map_err(|e| Failure::to_open(&self.path, e))
    }
}

fn unsupported(reason: &'static str) -> diskfs::Error {
    diskfs::Error::new(ErrorKind::Unsupported, reason)
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
