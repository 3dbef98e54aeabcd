//! The command `qemu-img create`.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use clap::Args;

use diskfs::Format;
use diskfs::image::create::{
    BackingCheck, CreateOptions, Existing, L2Entries, NewImage, NewQcow2, RefcountUpdates,
};

use super::arguments::{format_of, local_path, size};
use super::failure::{Failure, Result};
use super::names::LUKS;
use super::new_format::NewFormat;
use super::runner::text;
use super::secret::Secrets;
use crate::cli::image_settings::{ENCRYPTION_OPTIONS, ImageSettings, create_image, options_in};
use crate::cli::options::configured;
use crate::cli::show::name::message;

/// Create an image, which replaces an existing file
#[derive(Debug, Args)]
pub(super) struct Create {
    #[arg(value_name = "FILE")]
    name: OsString,

    #[arg(value_name = "SIZE")]
    size: Option<String>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT", default_value = "raw")]
    format: String,

    /// The backing file
    #[arg(short, long, value_name = "FILE")]
    backing: Option<OsString>,

    /// The format of the backing file
    #[arg(short = 'F', long, value_name = "FMT")]
    backing_format: Option<String>,

    /// Do not open the backing file
    #[arg(short = 'u', long)]
    backing_unsafe: bool,

    /// Options of the image
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    /// Define the key of an encrypted image: secret,id=NAME and data=TEXT or file=FILE
    #[arg(long, value_name = "OBJECTDEF")]
    object: Vec<String>,
}

impl Create {
    pub(super) fn run(&self) -> Result<u8> {
        let path = local_path(&self.name)?;
        let format = NewFormat::parse(&self.format)?;
        let settings = self.settings(&path, format)?;
        let options = self.create_options(&path, format.contents, &settings)?;
        let failed = |error: diskfs::block::Error| Failure::at(&text(&path), error);
        let created =
            create_image(&path, &options, &mut |_| ControlFlow::Continue(())).map_err(failed)?;
        if !self.quiet {
            let size = options.size_bytes.unwrap_or(created.virtual_size_bytes);
            let line = self.formatting(&path, &options, size);
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}")?;
            out.flush()?;
        }
        Ok(0)
    }

    fn settings(&self, path: &Path, format: NewFormat) -> Result<ImageSettings> {
        let secrets = Secrets::parse(&self.object)?;
        let failed = |e| Failure::at(&text(path), e);
        let mut settings = format.settings(&self.options).map_err(failed)?;
        if let Some(text) = &self.size {
            settings.size = Some(size(text)?);
        }
        let backing = self.backing.as_ref().map(Into::into);
        let named = self.backing_format.as_deref().map(format_of).transpose()?;
        settings.override_backing(backing.as_ref(), named);
        if settings.backing.is_some() && settings.backing_format.is_none() {
            let reason = format!(
                "{}: Backing file specified without backing format",
                path.display()
            );
            return Err(Failure::new(reason));
        }
        if settings.size.is_none() && settings.backing.is_none() {
            let reason = format!("{}: Image creation needs a size parameter", path.display());
            return Err(Failure::new(reason));
        }
        if format.contents == Format::Raw && settings.backing.is_some() {
            let reason = format!(
                "{}: Backing file not supported for file format '{}'",
                path.display(),
                format.name()
            );
            return Err(Failure::new(reason));
        }
        format.encrypt(&mut settings, &secrets, path)?;
        Ok(settings)
    }

    fn create_options(
        &self,
        path: &Path,
        format: Format,
        settings: &ImageSettings,
    ) -> Result<CreateOptions> {
        let check = || {
            if self.backing_unsafe {
                return Ok(BackingCheck::Skip);
            }
            configured().map(BackingCheck::Open)
        };
        let image = settings.image(format, check);
        Ok(CreateOptions {
            image: image.map_err(|e| Failure::at(&text(path), e))?,
            size_bytes: settings.size,
            preallocation: settings.preallocation,
            existing: Existing::Replace,
        })
    }
}

/// Returns the settings of lists of options, without those that have no effect on the image.
pub(super) fn settings_of(lists: &[String]) -> diskfs::Result<ImageSettings> {
    // It is a hint for btrfs.
    let kept = options_in(lists).filter(|option| !option.starts_with("nocow"));
    let kept: Vec<String> = kept.map(|option| option.replace(',', ",,")).collect();
    ImageSettings::of(&kept)
}

/// Returns the value of an option in lists of options, the last of which counts.
fn value_of(lists: &[String], name: &str) -> Option<String> {
    let mut values = options_in(lists).filter_map(|option| match option.split_once('=') {
        Some((named, value)) => (named == name).then(|| value.to_owned()),
        None => (option == name).then(|| "on".to_owned()),
    });
    values.next_back()
}

impl Create {
    /// Returns the line that describes a new image: its options with their values, as far as they
    /// have a default or were given.
    fn formatting(&self, path: &Path, options: &CreateOptions, size: u64) -> String {
        let given = |name| value_of(&self.options, name);
        let format = match &options.image {
            NewImage::Luks(_) => LUKS,
            other => other.format().qemu_name(),
        };
        let mut words = Words(vec![
            format!("Formatting '{}',", message(&text(path))),
            format!("fmt={format}"),
        ]);
        match &options.image {
            NewImage::Qcow2(image) => self.put_qcow2(&mut words, image, size),
            other => {
                words.put("size", size);
                for (name, default) in options_of(other) {
                    let default = (!default.is_empty()).then(|| (*default).to_owned());
                    words.put_given(name, given(name).or(default));
                }
            }
        }
        words.put_given("nocow", given("nocow"));
        words.0.join(" ")
    }

    fn put_qcow2(&self, words: &mut Words, image: &NewQcow2, size: u64) {
        let given = |name| value_of(&self.options, name);
        let encryption = ENCRYPTION_OPTIONS.iter();
        for name in std::iter::once(&"format").chain(encryption) {
            let name = format!("encrypt.{name}");
            words.put_given(&name, value_of(&self.options, &name));
        }
        words.put("cluster_size", image.cluster_size_bytes);
        words.put_switch("extended_l2", image.l2_entries == L2Entries::Extended);
        words.put_given("preallocation", given("preallocation"));
        words.put("compression_type", image.compression.name());
        words.put("size", size);
        if let Some(backing) = &image.backing {
            words.put("backing_file", message(&text(&backing.name)));
            words.put("backing_fmt", backing.format.qemu_name());
        }
        for name in ["compat", "data_file", "data_file_raw"] {
            words.put_given(name, given(name));
        }
        words.put_switch("lazy_refcounts", image.refcounts == RefcountUpdates::Lazy);
        words.put("refcount_bits", image.refcount_bits);
    }
}

/// Returns the options of a format in qemu-img's order, and the values that it shows for those
/// that are not given.
const fn options_of(image: &NewImage) -> &'static [(&'static str, &'static str)] {
    match image {
        NewImage::Vmdk(_) => &[
            ("adapter_type", ""),
            ("compat6", "off"),
            ("hwversion", "undefined"),
            ("subformat", ""),
        ],
        NewImage::Luks(_) => &[
            ("key-secret", ""),
            ("cipher-alg", ""),
            ("cipher-mode", ""),
            ("ivgen-alg", ""),
            ("ivgen-hash-alg", ""),
            ("hash-alg", ""),
            ("iter-time", ""),
            ("preallocation", ""),
        ],
        NewImage::Vdi(_) => &[("static", "off")],
        NewImage::Vhd(_) => &[("subformat", ""), ("force_size", "")],
        NewImage::Vhdx(_) => &[
            ("log_size", "1048576"),
            ("block_size", "0"),
            ("subformat", ""),
        ],
        NewImage::Raw | NewImage::Qcow2(_) => &[("preallocation", "")],
    }
}

/// The words of a line.
struct Words(Vec<String>);

impl Words {
    fn put(&mut self, name: &str, value: impl Display) {
        self.0.push(format!("{name}={value}"));
    }

    fn put_switch(&mut self, name: &str, value: bool) {
        self.put(name, if value { "on" } else { "off" });
    }

    fn put_given(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.put(name, message(&value));
        }
    }
}
