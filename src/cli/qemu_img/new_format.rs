//! The format of a new image, which can be that of a LUKS volume.

use std::path::Path;

use diskfs::luks::Secret;
use diskfs::{Error, ErrorKind, Format};

use super::arguments::format_of;
use super::create::settings_of;
use super::failure::{Failure, Result};
use super::names::LUKS;
use super::secret::Secrets;
use crate::cli::image_settings::{ENCRYPTION_OPTIONS, ImageSettings, options_in};

/// The format of a new image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewFormat {
    /// The format; that of the contents of a LUKS volume.
    pub(super) contents: Format,
    is_luks: bool,
}

impl NewFormat {
    /// Parses the name of a format.
    pub(super) fn parse(name: &str) -> Result<Self> {
        let is_luks = name == LUKS;
        let contents = if is_luks {
            Format::Raw
        } else {
            format_of(name)?
        };
        Ok(Self { contents, is_luks })
    }

    /// Returns true for a LUKS volume.
    pub(super) const fn is_luks(self) -> bool {
        self.is_luks
    }

    /// Returns the name of the format.
    pub(super) const fn name(self) -> &'static str {
        if self.is_luks {
            LUKS
        } else {
            self.contents.qemu_name()
        }
    }

    /// Returns the settings of lists of options.
    pub(super) fn settings(self, lists: &[String]) -> diskfs::Result<ImageSettings> {
        if !self.is_luks {
            let settings = settings_of(lists)?;
            if settings.is_encrypted() && self.contents != Format::Qcow2 {
                return Err(invalid("encrypt.format"));
            }
            return Ok(settings);
        }
        let mut options = Vec::new();
        for option in options_in(lists) {
            let name = option.split('=').next().unwrap_or_default();
            options.push(match name {
                // A LUKS volume has no tables to allocate.
                "preallocation" if option.ends_with("=metadata") => "preallocation=off".to_owned(),
                "size" | "preallocation" => option.replace(',', ",,"),
                _ if ENCRYPTION_OPTIONS.contains(&name) => {
                    format!("encrypt.{}", option.replace(',', ",,"))
                }
                "detached-header" => {
                    let reason = "option detached-header is not supported";
                    return Err(Error::new(ErrorKind::Unsupported, reason));
                }
                _ => return Err(invalid(name)),
            });
        }
        ImageSettings::of(&options)
    }

    /// Encrypts the new image with the secret that its options name, if they do.
    pub(super) fn encrypt(
        self,
        settings: &mut ImageSettings,
        secrets: &Secrets,
        path: &Path,
    ) -> Result<()> {
        let secret = self.secret(settings, secrets);
        let failed = |reason: String| Failure::new(format!("{}: {reason}", path.display()));
        let Some(secret) = secret.map_err(failed)? else {
            return Ok(());
        };
        let encrypted = settings.encrypt(secret);
        encrypted.map_err(|error| Failure::at(&path.to_string_lossy(), error))
    }

    /// Returns the secret that the options of the new image name, or the message if it is missing;
    /// `None` if the image is not encrypted.
    pub(super) fn secret<'a>(
        self,
        settings: &ImageSettings,
        secrets: &'a Secrets,
    ) -> std::result::Result<Option<&'a Secret>, String> {
        if !self.is_luks && !settings.is_encrypted() {
            return Ok(None);
        }
        let prefix = if self.is_luks { "" } else { "encrypt." };
        if !self.is_luks && settings.encryption_option("format").is_none() {
            return Err("Parameter 'encrypt.format' is missing".to_owned());
        }
        let id = settings
            .encryption_option("key-secret")
            .ok_or_else(|| format!("Parameter '{prefix}key-secret' is required for cipher"))?;
        let secret = secrets.find(id);
        secret
            .map(Some)
            .ok_or_else(|| format!("No secret with id '{id}'"))
    }
}

fn invalid(name: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("Invalid parameter '{name}'"))
}
