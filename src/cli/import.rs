//! The command `diskfs import`.

mod checking;

use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use diskfs::block::BlockRead;
use diskfs::image::convert::ConvertOptions;
use diskfs::image::create::{BackingCheck, Existing, UnfinishedImage};
use diskfs::image::validate::{Policy, ValidateOptions, Verdict, validate_device};
use diskfs::{Disk, Error, ErrorKind, Format, Gate, OpenOptions, Result};
use serde_json::Value;

use super::bytes;
use super::checksum::{Checksum, ExpectedChecksum};
use super::convert::output::{NewSizes, fields, file_sizes};
use super::fetch::{check_url, refuse_stream};
use super::image_settings::{ImageSettings, implied_format, refuse_others_names};
use super::options::ImageArgs;
use super::progress::Progress;
use super::remote::{self, shown};
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json;
use checking::Checking;

/// Make a local image of one on a web server, after validating it
///
/// The image is validated first, as `diskfs validate` does: an image from a stranger can name other
/// files of the host, or pretend to have another format. It is then converted directly, without a
/// temporary copy. FILE appears only when it is complete and durable, and its checksum is the
/// expected one. All bytes are of one version: a change on the server is an error.
#[derive(Debug, Args)]
#[command(
    after_help = "The URL is one of http, https, s3, gs or az. Credentials come from the environment and
from ~/.netrc, as for other commands. `diskfs fetch` copies a file as it is.

The format of FILE is -O, or follows its name as with `diskfs convert`.

--checksum is of the file that the server has: sha256: or sha512: with the digest in hexadecimal
digits, or the URL of a list as sha256sum(1) writes it. A raw image is checked while it is converted.
An image of another format is not read in order then, so it is read once before, to be checked: it
travels twice.

Examples:
  diskfs import https://example.org/debian.qcow2 -o debian.raw
  diskfs import s3://images/debian.vmdk -O qcow2 --size-limit 100G -o debian.qcow2
  diskfs import https://example.org/d.img --checksum https://example.org/SHA256SUMS -o d.qcow2"
)]
pub(super) struct Import {
    /// The URL of the image
    #[arg(value_name = "URL")]
    url: String,

    /// The image to make
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The format of FILE: raw, qcow2, vmdk, vhd, vdi or vhdx
    #[arg(short = 'O', long, value_name = "FORMAT")]
    output_format: Option<Format>,

    /// The rules that the image must follow: kubevirt, cdi or glance
    #[arg(long, value_name = "NAME", default_value = "cdi")]
    policy: Policy,

    /// The format that the sender states: refuse an image that looks like another one
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// The checksum of the file: sha256:HEX, sha512:HEX, or the URL of a list of checksums
    #[arg(long, value_name = "CHECKSUM")]
    checksum: Option<ExpectedChecksum>,

    /// Refuse disks that are larger (suffixes k, M, G, T)
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    size_limit: Option<u64>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// An image that was made.
struct Imported {
    source_format: Format,
    disk_bytes: u64,
    checksum: Option<Checksum>,
}

pub(super) fn run(args: &Import, session: &mut Session) -> Result<()> {
    check_url(&args.url)?;
    refuse_stream(&args.output)?;
    let imported = args.import(session)?;
    match session.output() {
        Output::Json => args.print_json(&imported, session),
        Output::Text => Ok(()),
    }
}

impl Import {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        let list = self.checksum.as_ref().and_then(ExpectedChecksum::list);
        let urls = [Some(self.url.as_str()), list];
        // A comma in an image's name is doubled.
        let images = urls.into_iter().flatten();
        let images = images.map(|url| OsString::from(url.replace(',', ",,")));
        Needs::reading_alone(images.collect(), &ImageArgs::default()).writing(Some(&self.output))
    }

    fn import(&self, session: &mut Session) -> Result<Imported> {
        let options = self.convert_options()?;
        let expected = self.checksum.as_ref();
        // The image first: its server is the one that a token of the environment is for.
        let remote = remote::images().open(&self.url)?.device;
        let checksum = expected.map(|it| it.resolve(&self.url)).transpose()?;
        diskfs_sandbox::act_if_planted();
        let source_format = self.validate(&remote, session)?;
        let checking = match &checksum {
            // A raw disk is the file, byte by byte.
            Some(expected) if source_format == Format::Raw => {
                Some(Arc::new(Checking::new(Arc::clone(&remote), expected)))
            }
            Some(expected) => {
                let checked = checking::check(&remote, expected, session.progress());
                checked.map_err(|e| e.in_file(shown(&self.url)))?;
                None
            }
            None => None,
        };
        let file = checking.clone().map_or(remote, |checking| checking as _);
        let device = self.open(file, source_format)?.device();
        let disk_bytes = options.image.virtual_size_bytes(device.size_bytes())?;
        let new = self.convert(&*device, &options, session)?;
        if let Some(checking) = checking {
            checking.finish().map_err(|e| e.in_file(shown(&self.url)))?;
        }
        new.finish()?;
        Ok(Imported {
            source_format,
            disk_bytes,
            checksum,
        })
    }

    fn convert_options(&self) -> Result<ConvertOptions> {
        if self.output_format.is_none() {
            refuse_others_names(&self.output)?;
        }
        let format = self.output_format;
        let format = format.unwrap_or_else(|| implied_format(&self.output, false));
        let image = ImageSettings::default().image(format, || Ok(BackingCheck::Skip))?;
        Ok(ConvertOptions {
            image,
            existing: if self.force {
                Existing::Replace
            } else {
                Existing::Keep
            },
            ..ConvertOptions::default()
        })
    }

    /// Refuses an image that breaks the rules, and returns its format.
    fn validate(&self, remote: &Arc<dyn BlockRead>, session: &mut Session) -> Result<Format> {
        let name = shown(&self.url);
        let options = ValidateOptions {
            policy: self.policy,
            claimed: self.format,
            size_limit_bytes: self.size_limit,
        };
        let verdict = validate_device(name.as_ref(), Arc::clone(remote), &options)?;
        if !verdict.is_accepted() {
            return Err(self.refusal(&verdict).in_file(name));
        }
        for note in &verdict.notes {
            session.warn(note);
        }
        Ok(verdict.format.parse()?)
    }

    fn refusal(&self, verdict: &Verdict) -> Error {
        let broken = verdict.broken.iter();
        let rules = broken.map(|broken| format!("{}: {}", broken.rule.id(), broken.message));
        let rules = rules.collect::<Vec<_>>().join("; ");
        let reason = format!("refused by the policy {}: {rules}", self.policy.name());
        Error::new(ErrorKind::Denied, reason)
    }

    fn open(&self, file: Arc<dyn BlockRead>, format: Format) -> Result<Disk> {
        let options = OpenOptions {
            format: Some(format),
            gate: Gate::closed(),
            ..OpenOptions::default()
        };
        let options = Disk::options().image(options);
        options.open_device(shown(&self.url), file)
    }

    fn convert(
        &self,
        from: &dyn BlockRead,
        options: &ConvertOptions,
        session: &Session,
    ) -> Result<UnfinishedImage> {
        let mut progress = Progress::new(session.progress(), Some(from.size_bytes()));
        let mut advance = |bytes| {
            progress.advance(bytes);
            ControlFlow::Continue(())
        };
        let new = UnfinishedImage::converted(from, &self.output, options, &mut advance);
        progress.finish();
        Ok(new?)
    }

    fn print_json(&self, imported: &Imported, session: &Session) -> Result<()> {
        let (file, allocated) = file_sizes(&self.output)?;
        let sizes = NewSizes {
            disk: imported.disk_bytes,
            file,
            allocated,
        };
        let format = self.convert_options()?.image.format();
        let mut fields = fields(&self.output, format.name(), sizes);
        let checksum = imported.checksum.as_ref().map(ToString::to_string);
        fields.insert(
            "source_format".to_owned(),
            imported.source_format.name().into(),
        );
        fields.insert("policy".to_owned(), self.policy.name().into());
        fields.insert("checksum".to_owned(), checksum.into());
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}
