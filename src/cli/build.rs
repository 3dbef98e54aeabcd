//! The command `diskfs build`.

mod reference;
mod report;

use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, ValueEnum};

#[cfg(feature = "microvm")]
use diskfs::build::ToolFilesystem;
use diskfs::build::{
    BuildOptions, Built, ImageFormat, Plan, Prepared, Size, SourceOptions, SourcePlan, Sources,
};
use diskfs::image::create::Existing;
#[cfg(feature = "microvm")]
use diskfs::vm::tools::{self, NewByTool, Work};
use diskfs::{CancellationToken, Error, ErrorKind, Result};

use super::key::{KeySelector, new_passphrases};
use super::mkfs::source_date;
use super::out_file::is_standard;
use super::progress::Progress;
use super::session::{Session, stdout};
use super::signals::Signals;
#[cfg(feature = "microvm")]
use super::vm::VmArgs;

/// Build a whole disk image from a plan, or from a tree of files
///
/// The plan is a file in YAML or JSON. It lists the partitions with their contents (filesystems,
/// LVM, LUKS2), the sources of the files (directories, tar archives, container images, single
/// files), and the UEFI boot loader. `/etc/fstab` is written from it, and the steps of a deploy plan
/// can follow. All sizes are worked out before anything is written, and the image appears under its
/// name only when it is complete. No program of the image is run, and neither root nor loop devices
/// are needed.
///
/// Without a plan, --from-tar, --from-dir or --from-oci makes the simplest image: a GPT with one
/// ext4 filesystem that fits the files, and a system partition if they contain a UEFI boot loader
/// and a kernel.
///
/// With `seed` and `time` in the plan, the same plan and files always make the same bytes; the time
/// can also be given in the environment variable `SOURCE_DATE_EPOCH`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs build disk.yaml -o web.qcow2
  diskfs build disk.yaml --dry-run
  diskfs build --from-tar rootfs.tar.zst -o disk.qcow2
  diskfs build --from-oci alpine.tar --size 10G -o disk.raw
  diskfs build encrypted.yaml -o encrypted.qcow2 --key cryptroot:file:secret
  diskfs build --describe partitions

A plan:
  disk: {size: fit+20%, format: qcow2}
  partitions:
    - {type: esp, size: 256M, filesystem: {type: fat, label: ESP, mount: /boot/efi}}
    - lvm:
        group: vg0
        volumes:
          - {name: root, filesystem: {type: ext4, label: root, mount: /}}
          - {name: swap, size: 1G, filesystem: {type: swap}}
  sources:
    - tar: rootfs.tar.zst
    - {directory: overlay, owner: \"0:0\"}
    - {text: \"Welcome\\n\", to: /etc/motd}
  bootloader: {arguments: console=ttyS0}
  deploy:
    - hostname: web1.example.org")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(super) struct Build {
    /// The plan, in YAML or JSON; - for standard input
    #[arg(value_name = "PLAN", required_unless_present_any = ["from_dir", "from_tar", "from_oci", "describe", "schema"])]
    plan: Option<PathBuf>,

    /// The image file to create
    #[arg(short, long, value_name = "DISK", required_unless_present_any = ["dry_run", "describe", "schema"])]
    output: Option<PathBuf>,

    /// The format of the image [default: that of the plan, else qcow2 for a name in .qcow2, else
    /// raw]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<FormatName>,

    /// The size of the disk, instead of the plan's: SIZE, or fit for the smallest one, plus N
    /// percent or SIZE
    #[arg(long, value_name = "SIZE|fit[+N%|+SIZE]", value_parser = Size::parse)]
    size: Option<Size>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,

    /// Print the layout of the image, and create nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Build the simplest image of a directory
    #[arg(long, value_name = "DIR", group = "source", conflicts_with = "plan")]
    from_dir: Option<PathBuf>,

    /// Build the simplest image of a tar archive, plain or compressed
    #[arg(long, value_name = "FILE", group = "source", conflicts_with = "plan")]
    from_tar: Option<PathBuf>,

    /// Build the simplest image of an OCI image layout or an archive of `docker save`
    #[arg(
        long,
        value_name = "IMAGE[:TAG]",
        group = "source",
        conflicts_with = "plan"
    )]
    from_oci: Option<String>,

    /// With --from-dir, give all files to this user and group
    #[arg(long, value_name = "UID:GID", requires = "from_dir")]
    owner: Option<String>,

    /// Give the passphrase of an encrypted volume: NAME:file:FILE, NAME:ask, NAME:env:VARIABLE
    ///
    /// NAME is the volume's `name` in the plan, or `all`. `file:FILE` uses the whole contents of
    /// FILE, as cryptsetup --key-file does. `key:STRING` requires --keys-in-clear. Can be repeated.
    #[arg(long, value_name = "SELECTOR")]
    key: Vec<KeySelector>,

    /// Allow passphrases on the command line (--key NAME:key:STRING), where all users of the host
    /// can see them
    #[arg(long)]
    keys_in_clear: bool,

    /// List the keys of plans, or describe one of them and everything in it
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["plan", "source"])]
    describe: Option<String>,

    /// Print the JSON Schema of plans
    #[arg(long, conflicts_with_all = ["plan", "source"])]
    schema: bool,

    #[cfg(feature = "microvm")]
    #[command(flatten)]
    vm: VmArgs,
}

/// A format of new images.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormatName {
    /// The bytes of the disk, with holes
    Raw,
    /// QEMU's format, which stores only clusters that were written
    Qcow2,
}

/// The hint for an invalid plan.
const PLAN_HINT: &str =
    "`diskfs build --describe` lists the keys of plans, and `--describe KEY` describes one";

pub(super) fn run(args: &Build, session: &mut Session) -> Result<()> {
    if let Some(key) = &args.describe {
        let key = Some(key.as_str()).filter(|key| !key.is_empty());
        return reference::describe(key, session);
    }
    if args.schema {
        return reference::print_schema(&mut stdout()?);
    }
    // Signals are blocked before other threads start: a signal that is delivered to one of these
    // would end the whole process, and leave the temporary file.
    let cancellation = cancelled_by(Signals::block())?;
    let prepared = args.prepare(session, &cancellation)?;
    let layout = prepared.layout();
    if args.dry_run {
        return report::write(session, &layout, None);
    }
    let built = args.build(&prepared, session, &cancellation)?;
    report::write(session, &layout, Some(&built))
}

/// Returns a token that a signal cancels.
fn cancelled_by(signals: Signals) -> Result<CancellationToken> {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            signals.wait();
            cancelled.cancel();
        })?;
    Ok(token)
}

impl Build {
    /// Reads the plan and the headers of the sources, and computes the layout.
    fn prepare(&self, session: &Session, cancellation: &CancellationToken) -> Result<Prepared> {
        let time = source_date()?;
        let mut progress = Progress::new(session.progress(), None);
        let mut open = |plans: &[SourcePlan], directory: &Path, time| {
            let options = SourceOptions { directory, time };
            Sources::open(plans, options, &mut |bytes| {
                progress.advance(bytes);
                cancellation.flow()
            })
        };
        let seconds = time.and_then(|time| u32::try_from(time.seconds).ok());
        let (mut plan, sources) = if let Some(source) = self.simple_source() {
            let sources = open(std::slice::from_ref(&source), Path::new(""), time)?;
            let plan = Plan::simple(source, sources.has_boot_loader());
            (plan, sources)
        } else {
            let plan = self.read_plan()?;
            let planned = plan.time.map(|seconds| diskfs::vfs::Timestamp {
                seconds: seconds.into(),
                nanoseconds: 0,
            });
            let sources = open(&plan.sources, &self.directory(), planned.or(time));
            let sources = sources.map_err(|error| self.in_plan(error))?;
            (plan, sources)
        };
        progress.finish();
        plan.time = plan.time.or(seconds);
        plan.disk.size = self.size.unwrap_or(plan.disk.size);
        plan.disk.format = self.format.map(FormatName::format).or(plan.disk.format);
        Prepared::new(plan, sources).map_err(|error| self.in_plan(error))
    }

    /// Returns the source of the simplest image.
    fn simple_source(&self) -> Option<SourcePlan> {
        let source = SourcePlan {
            directory: self.from_dir.clone(),
            tar: self.from_tar.clone(),
            oci: self.from_oci.clone(),
            owner: self.owner.clone(),
            ..SourcePlan::default()
        };
        (source != SourcePlan::default()).then_some(source)
    }

    fn read_plan(&self) -> Result<Plan> {
        let path = self.plan.clone().unwrap_or_default();
        let text = if is_standard(&path) {
            std::io::read_to_string(std::io::stdin())
        } else {
            std::fs::read_to_string(&path)
        };
        let text = text.map_err(|error| Error::from(error).in_file(&path))?;
        Plan::parse(&text).map_err(|error| error.in_file(&path).with_hint(PLAN_HINT))
    }

    /// Returns the directory at which relative paths of the plan start.
    fn directory(&self) -> PathBuf {
        let parent = self.plan.as_deref().and_then(Path::parent);
        parent.map(Path::to_owned).unwrap_or_default()
    }

    /// Adds the file of the plan to an error that names no other file.
    fn in_plan(&self, error: Error) -> Error {
        match &self.plan {
            Some(path) => error.in_file(path),
            None => error,
        }
    }

    fn build(
        &self,
        prepared: &Prepared,
        session: &Session,
        cancellation: &CancellationToken,
    ) -> Result<Built> {
        let output = self.output.clone().unwrap_or_default();
        let options = BuildOptions {
            existing: if self.force {
                Existing::Replace
            } else {
                Existing::Keep
            },
            directory: self.directory(),
            keys: new_passphrases(&self.key, self.keys_in_clear)?,
            cancellation: cancellation.clone(),
            ..BuildOptions::default()
        };
        #[cfg(feature = "microvm")]
        let by_tool = |new: &ToolFilesystem, volume: &diskfs::Volume| self.by_tool(new, volume);
        #[cfg(feature = "microvm")]
        let options = BuildOptions {
            fallback: Some(self.vm.fallback()?),
            format_by_tool: Some(&by_tool),
            ..options
        };
        let mut progress = Progress::new(session.progress(), Some(prepared.stream_bytes()));
        let built = prepared.build(&output, &options, &mut |bytes| {
            progress.advance(bytes);
            cancellation.flow()
        });
        progress.finish();
        built.map_err(|error| match error.kind() {
            ErrorKind::Exists if error.next_step().is_none() => {
                error.with_hint("--force replaces it")
            }
            _ => error,
        })
    }

    /// Creates a filesystem with the program of its type, in a microVM.
    #[cfg(feature = "microvm")]
    fn by_tool(&self, new: &ToolFilesystem, volume: &diskfs::Volume) -> Result<()> {
        let work = Work::Make(NewByTool {
            label: Some(new.label.clone()).filter(|label| !label.is_empty()),
            uuid: Some(new.uuid.clone()),
            options: Vec::new(),
        });
        let device = volume.writable_device()?;
        let options = self.vm.options()?;
        tools::work(&options, new.kind, device, &work, |_, _| Ok(()))?.check()?;
        Ok(())
    }
}

impl FormatName {
    const fn format(self) -> ImageFormat {
        match self {
            Self::Raw => ImageFormat::Raw,
            Self::Qcow2 => ImageFormat::Qcow2,
        }
    }
}
