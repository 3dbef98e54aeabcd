//! The command `diskfs backup`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use diskfs::block::BlockRead;
use diskfs::image::bitmaps::MarkedDisk;
use diskfs::image::convert::{ConvertOptions, Packing, Scope, convert, convert_verified};
use diskfs::image::create::{BackingCheck, Existing, NewBacking, NewImage, NewQcow2};
use diskfs::image::{Description, Image};
use diskfs::{Disk, Error, ErrorKind, Format, OpenOptions, Result};
use serde_json::Value;

use super::convert::files::{is_in_chain, refuse_source};
use super::convert::output::{NewSizes, fields, file_sizes};
use super::image_settings::implied_format;
use super::operand::Operand;
use super::options::{ImageArgs, SourceArgs, configured_and};
use super::out_file::is_standard;
use super::progress::Progress;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json;

/// Back up a disk, or what changed in it since a bitmap was added
///
/// The backup is a qcow2 image. With --since, it contains what the bitmap marks, including zeroes,
/// and with --backing it reads the rest from the previous backup: every command opens it as the
/// whole disk of its time. The new file appears under its name only when it is complete and
/// durable. The image must not be in use, and does not change.
#[derive(Debug, Args)]
#[command(
    after_help = "A bitmap marks what was written since it was added, by QEMU or by diskfs. Add the next bitmap
before each backup: a write between the two is then in this backup and in the next one. In the other
order, it would be in neither. A bitmap that may have missed writes is refused: one that is disabled
or inconsistent.

PREVIOUS is the backup that was made when the bitmap was added, as the new file will refer to it:
relative to its directory, or absolute. Backups can be moved together. Without --backing, set it
later with `diskfs rebase -u`. --verify compares the backup, with those before it, with the disk.

The disk can have another size than in the previous backup. If it was made smaller and larger again
since then, make a full backup: QEMU does not mark what is lost by that.

Examples:
  diskfs bitmap checkpoint monday disk.qcow2
  diskfs backup disk.qcow2 -o full.qcow2
  diskfs bitmap checkpoint tuesday disk.qcow2
  diskfs backup disk.qcow2 --since monday --backing full.qcow2 -o inc1.qcow2
  diskfs bitmap remove disk.qcow2 monday
  diskfs bitmap checkpoint wednesday disk.qcow2
  diskfs backup disk.qcow2 --since tuesday --backing inc1.qcow2 -o inc2.qcow2
  diskfs bitmap remove disk.qcow2 tuesday
  diskfs cp inc1.qcow2:/etc/fstab fstab.tuesday
  diskfs convert inc2.qcow2 restored.qcow2"
)]
pub(super) struct Backup {
    /// The image to back up
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Copy only what this bitmap marks
    #[arg(long, value_name = "BITMAP")]
    since: Option<String>,

    /// The new file, a qcow2 image
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The previous backup, from which the new one reads what it does not contain
    #[arg(long, value_name = "PREVIOUS", requires = "since")]
    backing: Option<PathBuf>,

    /// The format of the previous backup
    #[arg(
        short = 'F',
        long,
        value_name = "FORMAT",
        requires = "backing",
        default_value = "qcow2"
    )]
    backing_format: Format,

    /// Compress the new file
    #[arg(short, long)]
    compress: bool,

    /// The level of compression, 1 to 9
    #[arg(long, value_name = "N", requires = "compress")]
    level: Option<u32>,

    /// The number of threads [default: the number of processors]
    #[arg(short = 'm', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Read the new file again, with the previous backups, and compare it with the disk
    #[arg(long)]
    verify: bool,

    /// Replace an existing file
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    options: ImageArgs,
}

pub(super) fn run(args: &Backup, session: &mut Session) -> Result<()> {
    args.check()?;
    let image = args.image.image_alone("to back up")?;
    let disk = SourceArgs::of_image(&args.options).open(&image)?;
    session.print_warnings(&disk);
    refuse_source(&args.output, &disk)?;
    let old_bytes = args.check_backing(&disk)?;
    let marked = args.marked(&disk)?;
    let marked = marked.map(|marked| marked.grown_from(old_bytes.unwrap_or(u64::MAX)));
    match &marked {
        Some(marked) => args.copy(marked, session)?,
        None => args.copy(&*disk.device(), session)?,
    }
    session.print_done("backed up to", args.output.as_os_str().as_encoded_bytes());
    if session.output() == Output::Json {
        args.print_json(session, disk.description(), marked.as_ref())?;
    }
    Ok(())
}

impl Backup {
    /// Returns the files of the host that the command uses, unless it opens another image.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        if self.backing.is_some() {
            return None;
        }
        let needs = Needs::reading_whole(&self.image, &self.options);
        Some(needs.writing(Some(&self.output)))
    }

    /// Fails for options that cannot be combined.
    fn check(&self) -> Result<()> {
        let invalid = |reason: &'static str| Error::new(ErrorKind::Invalid, reason);
        if is_standard(&self.output) {
            let reason = "a backup cannot be written to standard output";
            return Err(invalid(reason).with_hint("give -o the name of a new file"));
        }
        if implied_format(&self.output, true) != Format::Qcow2 {
            let reason = "a backup is a qcow2 image, but its name suggests another format";
            return Err(invalid(reason).in_file(&self.output));
        }
        if self.verify && self.since.is_some() && self.backing.is_none() {
            let reason = "an incremental backup without the previous one cannot be verified";
            return Err(invalid(reason).with_hint("give --backing, or leave out --verify"));
        }
        Ok(())
    }

    /// Returns the marked part of the disk, if only that is copied.
    fn marked(&self, disk: &Disk) -> Result<Option<MarkedDisk>> {
        let Some(bitmap) = &self.since else {
            return Ok(None);
        };
        let marked = disk.image().map(|image| MarkedDisk::new(image, bitmap));
        Ok(marked.transpose()?)
    }

    /// Returns the size of the disk in the previous backup. Refuses one that is the image itself, or
    /// that the new backup would replace.
    fn check_backing(&self, disk: &Disk) -> Result<Option<u64>> {
        let Some(name) = &self.backing else {
            return Ok(None);
        };
        let directory = self.output.parent().unwrap_or(Path::new(""));
        let path = directory.join(name);
        let options = OpenOptions {
            format: Some(self.backing_format),
            gate: configured_and(&self.options.allow_backing)?,
            ..OpenOptions::default()
        };
        let previous = Image::open(&path, &options)?;
        let chain = previous.description();
        let invalid = |reason: &'static str| Error::new(ErrorKind::Invalid, reason);
        if chain.file_id.is_some() && chain.file_id == disk.description().file_id {
            let reason = "the previous backup is the image that is backed up";
            return Err(invalid(reason)
                .in_file(&path)
                .with_hint("give the backup that was made when the bitmap was added"));
        }
        if is_in_chain(&self.output, chain) {
            let reason = "the target is the previous backup, or one of its backing files";
            return Err(invalid(reason).in_file(&self.output));
        }
        Ok(Some(previous.device().size_bytes()))
    }

    fn convert_options(&self) -> Result<ConvertOptions> {
        let backing = self.backing.as_ref().map(|name| {
            let gate = configured_and(&self.options.allow_backing)?;
            Ok::<_, Error>(NewBacking {
                name: name.clone(),
                format: self.backing_format,
                check: BackingCheck::OpenUnrecorded(gate),
            })
        });
        let image = NewQcow2 {
            backing: backing.transpose()?,
            ..NewQcow2::default()
        };
        Ok(ConvertOptions {
            image: NewImage::Qcow2(Box::new(image)),
            packing: self.compress.then_some(Packing { level: self.level }),
            threads: self.threads,
            existing: if self.force {
                Existing::Replace
            } else {
                Existing::Keep
            },
            scope: match self.since {
                Some(_) => Scope::Stored,
                None => Scope::Whole,
            },
            ..ConvertOptions::default()
        })
    }

    fn copy(&self, from: &dyn BlockRead, session: &Session) -> Result<()> {
        let options = self.convert_options()?;
        let mut progress = Progress::new(session.progress(), Some(from.size_bytes()));
        let mut advance = |bytes| {
            progress.advance(bytes);
            ControlFlow::Continue(())
        };
        let copied = if self.verify {
            convert_verified(from, &self.output, &options, &mut advance)
        } else {
            convert(from, &self.output, &options, &mut advance)
        };
        progress.finish();
        Ok(copied?)
    }

    fn print_json(
        &self,
        session: &Session,
        source: &Description,
        marked: Option<&MarkedDisk>,
    ) -> Result<()> {
        let (file, allocated) = file_sizes(&self.output)?;
        let sizes = NewSizes {
            disk: source.virtual_size_bytes.next_multiple_of(512),
            file,
            allocated,
        };
        let mut fields = fields(&self.output, Format::Qcow2.name(), sizes);
        if let Some(since) = &self.since {
            fields.insert("since".to_owned(), since.as_str().into());
        }
        if let Some(marked) = marked {
            fields.insert("marked_bytes".to_owned(), marked.marked_bytes()?.into());
        }
        if let Some(name) = &self.backing {
            json::put_name(&mut fields, "backing", name.as_os_str().as_encoded_bytes());
        }
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}
