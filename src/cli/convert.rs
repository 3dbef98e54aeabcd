//! The command `diskfs convert`.

mod bitmaps;
pub(super) mod files;
pub(super) mod output;
mod reading;
mod resuming;
mod stdin;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use diskfs::image::convert::{
    ConvertOptions, Packing, convert, convert_to_stream, convert_verified,
};
use diskfs::image::create::{BackingCheck, Existing};
use diskfs::{Error, ErrorKind, Format, Gate, Result};
use stdin::Opened;
use uuid::Uuid;

use super::bytes;
use super::image_settings::{ImageSettings, implied_format, refuse_others_names};
use super::new_key::NewKeyArgs;
use super::operand::Operand;
use super::options::{SourceArgs, configured_and};
use super::progress::Progress;
use super::sandbox::Needs;
use super::session::{Output, Session, large_stdout};
pub(crate) use reading::Reading;

/// Copy an image into a new one, in another format or compressed
///
/// The contents of the disk stay the same. Holes and zeroes are neither read nor written, and
/// reading, compressing and writing are done by several threads. The new image appears under its
/// name only when it is complete and durable. An existing file is kept, unlike with qemu-img:
/// --force replaces it, if no process is using it.
///
/// With --volume, only that volume is copied: a partition, a logical volume, or what an encrypted
/// volume contains.
#[derive(Debug, Args)]
#[command(
    after_help = "The format of DST is -O, or follows its name if that ends in .qcow2, .vmdk, .vhd,
.vpc, .vdi or .vhdx; else it is qcow2 with -c or -B, and raw without. The options of -o for qcow2
are those of `diskfs create`. Those of other formats are, as in qemu-img (the first of several is
the default):
  vmdk        subformat=monolithicSparse, or streamOptimized, which is always compressed;
              adapter_type=ide, buslogic, lsilogic or legacyESX; hwversion=4, or another number
  vhd (vpc)   subformat=dynamic or fixed; force_size=off or on
  vdi         static=off or on
  vhdx        subformat=dynamic or fixed; block_size=1M to 256M (default: 8M to 64M, by the size of
              the disk); log_size=1M, or another multiple of 1M

DST can be - for standard output. Raw images, streamOptimized VMDKs and qcow2 images without
compression are written as they are made; others are made in a temporary file first (in TMPDIR, else
/tmp). With --json, the summary is then printed on standard error.

IMG can be - for standard input. A raw image goes directly into a raw DST; others are stored in a
temporary file first (in TMPDIR, else /tmp). A raw image can be compressed by gzip, bzip2, xz, zstd
or lz4; it is decompressed unless --format says raw. An image that ends early is an error, as far as
its format tells: with a pipe, also check the exit code of the sender (`set -o pipefail`).

A raw DST shares the blocks of a raw IMG if both are on one filesystem that supports it (btrfs,
XFS), unless -S is 0. The zeroes that IMG stores then stay stored.

Without force_size=on, the size of a VHD is rounded up to one that a geometry can state, by at most
2 MiB. Azure requires subformat=fixed,force_size=on and a disk of whole MiB. A fixed VHD must be
opened by its format: disk.vhd,format=vhd.

--bitmaps copies the dirty bitmaps that IMG itself stores, so that incremental backups continue
from DST. A bitmap that was not saved properly is an error without --skip-broken-bitmaps.

--salvage gives up the sectors that cannot be read, because IMG or its disk is damaged. It does not
open an image whose header is damaged; `diskfs check --repair` repairs some of them.

With --resume, an unfinished copy is called DST.partial, and DST.resume records each GiB that is done.
After an error, a kill or a power cut, the same call continues there, if IMG is unchanged: its files
must have the same sizes and modification times. To give up, remove both files.

With --encrypt, DST is encrypted, and options of -o begin with encrypt: `diskfs create --help`
lists them.

With -B, DST is an overlay of FILE: only what IMG itself stores is copied, and the rest must be the
same in FILE. Without it, DST contains everything that IMG and its backing files contain.

Examples:
  diskfs convert disk.raw new.qcow2
  diskfs convert -c -o compression_type=zstd disk.qcow2 small.qcow2
  diskfs convert -o subformat=streamOptimized disk.qcow2 disk.vmdk
  diskfs convert -O raw disk.qcow2 - | zstd >copy.raw.zst
  diskfs convert - copy.raw < copy.raw.zst
  diskfs convert --snapshot before disk.qcow2 before.raw
  diskfs convert --volume vg0/data disk.qcow2 data.raw
  diskfs convert --resume disk.qcow2 backup.raw
  diskfs convert -n disk.qcow2 /dev/vg0/guest
  diskfs convert --encrypt file:key disk.qcow2 secret.qcow2"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Convert {
    /// The image to copy; - for standard input
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The new image; - for standard output
    #[arg(value_name = "DST")]
    target: PathBuf,

    /// The format of DST: raw, qcow2, vmdk, vhd, vdi or vhdx
    #[arg(short = 'O', long, value_name = "FORMAT")]
    output_format: Option<Format>,

    /// Compress DST, which is qcow2 or a VMDK stream
    #[arg(short, long)]
    compress: bool,

    /// The level of compression: 1 to 9 for zlib, 1 to 22 for zstd
    #[arg(long, value_name = "N", requires = "compress")]
    level: Option<u32>,

    /// Set options of DST in the syntax of qemu-img; can be repeated
    #[arg(short, value_name = "NAME=VALUE,...")]
    options: Vec<String>,

    /// The backing file of DST, as DST will refer to it
    #[arg(short = 'B', long, value_name = "FILE", requires = "backing_format")]
    backing: Option<PathBuf>,

    /// The format of the backing file of DST
    #[arg(short = 'F', long, value_name = "FORMAT", requires = "backing")]
    backing_format: Option<Format>,

    /// The smallest run of zeroes that DST does not store, 512 to 1M, or 0 to store all; not for
    /// qcow2 and VMDK streams
    #[arg(short = 'S', long, value_name = "SIZE", default_value = "4k", value_parser = bytes::parse)]
    sparse: u64,

    /// The identifier of DST, if its format has one [default: random]
    #[arg(long, value_name = "UUID")]
    uuid: Option<Uuid>,

    /// The number of threads [default: the number of processors]
    #[arg(short = 'm', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Write to DST, which exists, instead of creating it: an image or a block device
    #[arg(
        short,
        long,
        conflicts_with_all = ["compress", "options", "backing", "force", "uuid", "encrypt"]
    )]
    no_create: bool,

    /// With -n, assume that DST reads as zeroes, so that zeroes need not be written
    #[arg(long, requires = "no_create")]
    target_is_zero: bool,

    /// Read DST again and compare it with IMG before DST gets its name
    #[arg(long, conflicts_with = "no_create")]
    verify: bool,

    /// Copy the dirty bitmaps of IMG to DST, both of which are qcow2
    #[arg(long)]
    bitmaps: bool,

    /// With --bitmaps, leave out bitmaps that were not saved properly
    #[arg(long, requires = "bitmaps")]
    skip_broken_bitmaps: bool,

    /// Copy what can be read of a damaged IMG: the rest is zeroes in DST, and a warning names it
    #[arg(long)]
    salvage: bool,

    /// The largest number of bytes to read per second (suffixes k, M, G); 0 for no limit
    #[arg(short, long, value_name = "RATE", default_value = "0", value_parser = bytes::parse,
          hide_default_value = true)]
    rate_limit: u64,

    /// Continue a copy that was interrupted, or begin one that can be continued: raw or qcow2
    #[arg(
        long,
        conflicts_with_all = ["no_create", "backing", "bitmaps", "salvage", "verify", "encrypt"]
    )]
    resume: bool,

    #[command(flatten)]
    key: NewKeyArgs,

    /// Replace an existing file with DST
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Convert, session: &mut Session) -> Result<()> {
    let mut options = args.convert_options()?;
    let image = args.image.image_alone("to convert")?;
    if args.is_stream() {
        args.check_stream()?;
    }
    let disk = if args.reads_stream() {
        match args.open_stream(&image, &options, session)? {
            Opened::Disk(disk) => *disk,
            Opened::Copied(size) => return args.print_summary(session, &options, size),
        }
    } else {
        args.source.open(&image)?
    };
    let device = args.source.volume.device(&disk)?;
    let reading = Reading::new(device, args.salvage, args.rate_limit);
    let from = reading.device().as_ref();
    session.print_warnings(&disk);
    files::refuse_source(&args.target, &disk)?;
    options.bitmaps = args.bitmap_set(&disk, session)?;
    options.shared = args.shared(&disk);
    let mut progress = Progress::new(session.progress(), Some(from.size_bytes()));
    let mut advance = |bytes| {
        progress.advance(bytes);
        ControlFlow::Continue(())
    };
    let mut streamed_bytes = None;
    let converted = if args.no_create {
        args.write_into(from, &options, &mut advance)
    } else if args.is_stream() {
        let spool = tempfile::env::temp_dir();
        let out = &mut large_stdout()?;
        convert_to_stream(from, out, &spool, &options, &mut advance)
            .map(|bytes| streamed_bytes = Some(bytes))
            .map_err(Error::from)
    } else if args.resume {
        args.resume((&disk, reading.device()), &options, &mut advance)
    } else if args.verify {
        convert_verified(from, &args.target, &options, &mut advance).map_err(Error::from)
    } else {
        convert(from, &args.target, &options, &mut advance).map_err(Error::from)
    };
    progress.finish();
    converted?;
    for warning in reading.warnings() {
        session.warn(&warning);
    }
    if session.output() == Output::Json {
        let size = if args.no_create {
            from.size_bytes()
        } else {
            options.image.virtual_size_bytes(from.size_bytes())?
        };
        args.print_json(session, &options, size, (streamed_bytes, reading.lost()))?;
    }
    Ok(())
}

impl Convert {
    /// Returns the files of the host that the command uses, if it creates an image.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        if self.no_create || self.resume || self.backing.is_some() {
            return None;
        }
        let image = std::slice::from_ref(&self.image);
        // A confined process cannot open the file of a passphrase. Errors are reported later.
        let is_encrypted = matches!(self.key.load(), Ok(Some(_)));
        // Wrong options are reported later.
        let is_stream = self.is_stream();
        let options = (is_stream && !is_encrypted).then(|| self.convert_options().ok());
        let spools = options
            .flatten()
            .is_some_and(|it| !it.is_stream() || self.bitmaps);
        let spools = spools || is_stream && is_encrypted || self.reads_stream();
        let needs = Needs::reading(image, &self.source).spooling(spools);
        Some(needs.writing(Some(&self.target)))
    }

    fn format(&self) -> Format {
        let needs_qcow2 = self.compress || self.backing.is_some();
        let implied = || implied_format(&self.target, needs_qcow2);
        self.output_format.unwrap_or_else(implied)
    }

    fn convert_options(&self) -> Result<ConvertOptions> {
        if self.output_format.is_none() && !self.no_create {
            refuse_others_names(&self.target)?;
        }
        let mut wanted = ImageSettings::of(&self.options)?;
        if wanted.size.is_some() {
            let reason = "option size: the new image has the size of the source";
            return Err(Error::new(ErrorKind::Invalid, reason)
                .with_hint("use `diskfs resize` before or afterwards"));
        }
        wanted.override_backing(self.backing.as_ref(), self.backing_format);
        let check = || Ok(BackingCheck::Open(self.gate()?));
        wanted.encrypt_with(self.key.load()?.as_ref(), self.format())?;
        Ok(ConvertOptions {
            image: wanted.image(self.format(), check)?,
            packing: self.compress.then_some(Packing { level: self.level }),
            preallocation: wanted.preallocation,
            sparse_bytes: (self.sparse > 0).then_some(self.sparse),
            threads: self.threads,
            existing: if self.force {
                Existing::Replace
            } else {
                Existing::Keep
            },
            identity: self.uuid,
            ..ConvertOptions::default()
        })
    }

    /// Returns the files to which DST may refer.
    fn gate(&self) -> Result<Gate> {
        configured_and(&self.source.image.allow_backing)
    }
}
