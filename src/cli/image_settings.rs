//! The options of a new image, in the syntax of `qemu-img -o`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use diskfs::image::Compression;
use diskfs::image::create::{
    BackingCheck, Compat, DataFileLayout, L2Entries, NewBacking, NewDataFile, NewImage, NewQcow2,
    Preallocation, RefcountUpdates,
};
use diskfs::{Error, ErrorKind, Format, Result};

use super::bytes;

mod encryption;
mod whole;

use encryption::{Encryption, not_encrypted};
pub(super) use encryption::{ITER_TIME_MS, OPTIONS as ENCRYPTION_OPTIONS};
pub(super) use whole::create_image;

/// The settings that the command line amounts to.
#[derive(Debug, Clone, Default)]
pub(super) struct ImageSettings {
    pub(super) size: Option<u64>,
    pub(super) preallocation: Preallocation,
    pub(super) qcow2: NewQcow2,
    /// An option that only qcow2 has, named in the error if the format is raw.
    pub(super) qcow2_only: Option<String>,
    pub(super) backing: Option<PathBuf>,
    pub(super) backing_format: Option<Format>,
    data_file: Option<PathBuf>,
    data_file_layout: DataFileLayout,
    encryption: Encryption,
    /// The names and values of options that neither raw nor qcow2 has.
    others: Vec<(String, String)>,
}

impl ImageSettings {
    /// Returns the settings of these lists of options.
    pub(super) fn of(lists: &[String]) -> Result<Self> {
        let mut settings = Self::default();
        for option in options_in(lists) {
            settings.apply(&option)?;
        }
        Ok(settings)
    }

    /// Replaces the backing file and its format by those of other options, where given.
    pub(super) fn override_backing(&mut self, name: Option<&PathBuf>, format: Option<Format>) {
        self.backing = name.cloned().or(self.backing.take());
        self.backing_format = format.or(self.backing_format);
    }

    /// Returns the new image. `check` says how its backing file, if it has one, is checked.
    pub(super) fn image(
        &self,
        format: Format,
        check: impl FnOnce() -> Result<BackingCheck>,
    ) -> Result<NewImage> {
        let encryption = self.encryption.made()?;
        match format {
            Format::Raw | Format::Qcow2 => {}
            other if encryption.is_some() => return Err(not_encrypted(other)),
            _ => {}
        }
        match format {
            Format::Raw | Format::Qcow2 if !self.others.is_empty() => {
                Err(self.refuse_others(format, &[]))
            }
            Format::Raw => {
                let raw = self.raw()?;
                Ok(encryption.map_or(raw, NewImage::Luks))
            }
            Format::Qcow2 => Ok(NewImage::Qcow2(Box::new(self.qcow2(check)?))),
            Format::Vmdk => self.vmdk().map(NewImage::Vmdk),
            Format::Vhd => self.vhd().map(NewImage::Vhd),
            Format::Vdi => self.vdi().map(NewImage::Vdi),
            Format::Vhdx => self.vhdx().map(NewImage::Vhdx),
            other => Err(not_created(other)),
        }
    }

    fn qcow2(&self, check: impl FnOnce() -> Result<BackingCheck>) -> Result<NewQcow2> {
        let backing = match (&self.backing, self.backing_format) {
            (None, None) => None,
            (Some(name), Some(format)) => Some(NewBacking {
                name: name.clone(),
                format,
                check: check()?,
            }),
            (Some(_), None) => {
                let error = Error::new(ErrorKind::Invalid, "missing format of the backing file");
                return Err(
                    error.with_hint("give -F raw or -F qcow2; `diskfs info` shows the format")
                );
            }
            (None, Some(_)) => {
                let reason = "the format of the backing file is given, but no backing file";
                return Err(Error::new(ErrorKind::Invalid, reason));
            }
        };
        let data_file = self.data_file.as_ref().map(|name| NewDataFile {
            name: name.clone(),
            layout: self.data_file_layout,
        });
        if data_file.is_none() && self.data_file_layout == DataFileLayout::Raw {
            let reason = "option data_file_raw requires data_file";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        Ok(NewQcow2 {
            backing,
            data_file,
            encryption: self.encryption.made()?,
            ..self.qcow2.clone()
        })
    }

    fn raw(&self) -> Result<NewImage> {
        let backing = self.backing.as_ref().map(|_| "a backing file".to_owned());
        match backing.or_else(|| self.qcow2_only.clone()) {
            None => Ok(NewImage::Raw),
            Some(what) => {
                let error = Error::new(
                    ErrorKind::Invalid,
                    format!("{what} is not supported for raw images"),
                );
                Err(error.with_hint("give -f qcow2"))
            }
        }
    }

    /// Applies one option of `-o`.
    fn apply(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, "on"));
        let wrong =
            |reason: String| Error::new(ErrorKind::Invalid, format!("option {name}: {reason}"));
        let size = || bytes::parse(value).map_err(wrong);
        let qcow2 = &mut self.qcow2;
        match name {
            "size" => self.size = Some(size()?),
            "preallocation" => self.preallocation = preallocation(value).map_err(wrong)?,
            "backing_file" => self.backing = Some(OsString::from(value).into()),
            "backing_fmt" => self.backing_format = Some(value.parse()?),
            "cluster_size" => qcow2.cluster_size_bytes = size()?,
            "refcount_bits" => {
                let not_a_number = |_| wrong(format!("invalid number `{value}`"));
                qcow2.refcount_bits = value.parse().map_err(not_a_number)?;
            }
            "compat" => qcow2.compat = compat(value).map_err(wrong)?,
            "compression_type" => qcow2.compression = compression(value).map_err(wrong)?,
            "extended_l2" => {
                qcow2.l2_entries = if switch(value).map_err(wrong)? {
                    L2Entries::Extended
                } else {
                    L2Entries::Standard
                }
            }
            "lazy_refcounts" => {
                qcow2.refcounts = if switch(value).map_err(wrong)? {
                    RefcountUpdates::Lazy
                } else {
                    RefcountUpdates::Eager
                }
            }
            "data_file" => self.data_file = Some(OsString::from(value).into()),
            "data_file_raw" => {
                self.data_file_layout = if switch(value).map_err(wrong)? {
                    DataFileLayout::Raw
                } else {
                    DataFileLayout::Private
                }
            }
            _ if self.encryption.take(name, value) => return Ok(()),
            _ if whole::OPTIONS.contains(&name) => {
                self.others.push((name.to_owned(), value.to_owned()));
                return Ok(());
            }
            _ => return Err(unknown(name)),
        }
        if !["size", "preallocation", "backing_file", "backing_fmt"].contains(&name) {
            self.qcow2_only = Some(format!("option {name}"));
        }
        Ok(())
    }
}

fn unknown(name: &str) -> Error {
    if name.starts_with("encrypt") {
        let reason = format!("option {name} is not supported");
        let error = Error::new(ErrorKind::Unsupported, reason);
        return error.with_hint("encrypt.format=luks is, with options such as encrypt.cipher-alg");
    }
    if whole::UNSUPPORTED_OPTIONS.contains(&name) {
        let reason = format!("option {name} is not supported");
        return Error::new(ErrorKind::Unsupported, reason);
    }
    let reason = format!("unknown option `{}`", name.escape_debug());
    Error::new(ErrorKind::Invalid, reason).with_hint("`diskfs create --help` lists the options")
}

/// Returns the format that a new image's name suggests.
fn named_format(path: &Path) -> Option<Format> {
    let extension = path.extension().and_then(|name| name.to_str());
    extension?.to_ascii_lowercase().parse().ok()
}

/// Returns the format of a new image for which no option gives it: one that diskfs can write.
pub(super) fn implied_format(path: &Path, needs_qcow2: bool) -> Format {
    match named_format(path) {
        Some(format) if format != Format::Raw && format.is_creatable() => format,
        _ if needs_qcow2 => Format::Qcow2,
        _ => Format::Raw,
    }
}

/// Refuses the name of a new image that suggests a format which diskfs cannot write: it would
/// mislead users of the image.
pub(super) fn refuse_others_names(path: &Path) -> Result<()> {
    match named_format(path) {
        Some(format) if !format.is_creatable() => Err(not_created(format).in_file(path)),
        _ => Ok(()),
    }
}

/// Returns the error for a format that diskfs reads but does not create.
fn not_created(format: Format) -> Error {
    let reason = format!("creating images of format {format} is not supported");
    let theirs = format.qemu_name();
    Error::new(ErrorKind::Unsupported, reason).with_hint(format!(
        "raw, qcow2, vmdk, vhd, vdi and vhdx are supported; `qemu-img create -f {theirs}` makes \
         others"
    ))
}

/// Returns the options of several lists.
pub(super) fn options_in(lists: &[String]) -> impl DoubleEndedIterator<Item = String> {
    lists.iter().flat_map(|list| split_options(list))
}

/// Splits a list of options at commas. As in QEMU, two commas stand for one comma in an option.
pub(super) fn split_options(list: &str) -> Vec<String> {
    // A NUL cannot be part of an argument.
    let parts = list.replace(",,", "\0");
    let parts = parts.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.replace('\0', ",")).collect()
}

pub(super) fn preallocation(value: &str) -> std::result::Result<Preallocation, String> {
    Ok(match value {
        "off" => Preallocation::Off,
        "metadata" => Preallocation::Metadata,
        "falloc" => Preallocation::Falloc,
        "full" => Preallocation::Full,
        _ => {
            return Err(format!(
                "unknown mode `{value}`; known: off, metadata, falloc, full"
            ));
        }
    })
}

fn compat(value: &str) -> std::result::Result<Compat, String> {
    Ok(match value {
        "0.10" | "v2" => Compat::V0_10,
        "1.1" | "v3" => Compat::V1_1,
        _ => return Err(format!("unknown version `{value}`; known: 0.10, 1.1")),
    })
}

fn compression(value: &str) -> std::result::Result<Compression, String> {
    Ok(match value {
        "zlib" => Compression::Zlib,
        "zstd" => Compression::Zstd,
        _ => {
            return Err(format!(
                "unknown compression type `{value}`; known: zlib, zstd"
            ));
        }
    })
}

fn switch(value: &str) -> std::result::Result<bool, String> {
    Ok(match value {
        "on" | "yes" | "true" | "y" => true,
        "off" | "no" | "false" | "n" => false,
        _ => return Err(format!("invalid switch `{value}`: expected on or off")),
    })
}
