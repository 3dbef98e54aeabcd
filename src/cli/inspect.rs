//! `diskfs inspect`.

mod fleet;
mod text;
mod xml;

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use diskfs::guest::{self, MountedFilesystem};
use diskfs::inspect::{Depth, Drive, Report, SbomFormat, sbom};
use diskfs::vfs::Timestamp;
use diskfs::volume::Partition;
use diskfs::{Disk, Error, ErrorKind, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json as document;

/// Show which systems are on an image, and what they have
///
/// All is read from the guest's own files: nothing of it is run, no virtual machine is started for what diskfs reads
/// itself, and nothing is written. What can't be read is told, and the rest is shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs inspect debian.qcow2
  diskfs inspect --packages debian.qcow2
  diskfs inspect --json debian.qcow2 | jq '.systems[].network.interfaces'
  diskfs inspect --sbom cyclonedx debian.qcow2 > debian.cdx.json
  diskfs inspect --fleet /srv/images -j 4 --output fleet.jsonl --resume")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Inspect {
    /// The image
    #[arg(value_name = "IMG", required_unless_present_any = ["fleet", "schema"])]
    image: Option<Operand>,

    /// List the packages that are installed, too
    #[arg(long)]
    packages: bool,

    /// Unpack kernels' first filesystems, too, to tell which drivers are in them
    #[arg(long)]
    initramfs: bool,

    /// Say where each answer came from: file and line
    #[arg(long)]
    sources: bool,

    /// Write a bill of materials instead: what is installed, as JSON
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["xml", "fleet"])]
    sbom: Option<Bill>,

    /// Write XML instead, as virt-inspector does
    #[arg(long, conflicts_with = "fleet")]
    xml: bool,

    /// Print the JSON Schema of what --json prints
    #[arg(long, conflicts_with_all = ["image", "fleet"])]
    schema: bool,

    /// Look at all images of a directory, or of a list (a path a line, - for standard input), a line of JSON each
    #[arg(long, value_name = "DIR|LIST", conflicts_with = "image")]
    fleet: Option<PathBuf>,

    /// Images at once; as many as there are processors
    #[arg(short = 'j', long, value_name = "N", requires = "fleet")]
    jobs: Option<NonZero<u8>>,

    /// Write the lines of a fleet into a file instead of standard output
    #[arg(long, value_name = "FILE", requires = "fleet")]
    output: Option<PathBuf>,

    /// Go on with the file: images that it has an answer for are left out, those that failed are tried again
    #[arg(long, requires = "output")]
    resume: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// How a bill of materials is written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Bill {
    /// SPDX 2.3
    Spdx,
    /// `CycloneDX` 1.6
    Cyclonedx,
}

impl Inspect {
    fn depth(&self) -> Depth {
        if self.initramfs {
            Depth::Initramfs
        } else {
            Depth::Files
        }
    }
}

/// A guest, and what there is to say of it.
struct Guest {
    volume: String,
    filesystems: Vec<MountedFilesystem>,
    report: Report,
    /// Letters of Windows, as `C`, with the volumes that they stand for.
    drives: Vec<DriveMapping>,
}

/// The schema of the document.
const SCHEMA: &str = include_str!("inspect/schema.json");

pub(super) fn run(args: &Inspect, session: &mut Session) -> Result<()> {
    if args.schema {
        return Ok(stdout()?.write_all(SCHEMA.as_bytes())?);
    }
    if let Some(images) = &args.fleet {
        return fleet::run(args, images, session);
    }
    let Some(image) = &args.image else {
        return Ok(()); // Not without one: the arguments were checked.
    };
    let disk = session.disk(&image.image_alone("systems are looked at")?, &args.source)?;
    let guests = guests(args, &disk)?;
    session.warn_of(&disk);
    let mut out = stdout()?;
    match (args.sbom, session.output()) {
        (Some(bill), _) => write_bill(&mut out, bill, &disk, &guests)?,
        _ if args.xml => xml::write(&mut out, &guests)?,
        (_, Output::Json) => document::write(&mut out, session.command(), json(args, &guests))?,
        (_, Output::Text) => {
            for (number, guest) in (1..).zip(&guests) {
                text::write(&mut out, args, number, guest)?;
            }
        }
    }
    Ok(out.flush()?)
}

/// The systems of an image, or what is on the volume that is named.
fn guests(args: &Inspect, disk: &Disk) -> Result<Vec<Guest>> {
    if let Some(volume) = args.source.volume.volume(disk)? {
        let tree = volume.filesystem()?;
        let filesystem = guest::mounted("/", &volume, tree.statistics());
        let report = Report::of(&tree, args.depth());
        return Ok(vec![Guest {
            volume: volume.name().to_owned(),
            filesystems: vec![filesystem],
            drives: drives(disk, &report)?,
            report,
        }]);
    }
    let systems = match args.source.volume.os {
        Some(number) => guest::meant(disk, Some(number))?.into_iter().collect(),
        None => guest::systems(disk)?,
    };
    if systems.is_empty() {
        return Err(guest::no_system(disk));
    }
    let guests = systems.iter().map(|system| {
        let report = Report::of(&system.filesystem()?, args.depth());
        Ok(Guest {
            volume: system.volume().name().to_owned(),
            filesystems: system.filesystems(),
            drives: drives(disk, &report)?,
            report,
        })
    });
    guests.collect()
}

/// A letter that a Windows gives to a volume.
struct DriveMapping {
    letter: String,
    volume: String,
}

/// The letters that a Windows gives to volumes of the disk.
fn drives(disk: &Disk, report: &Report) -> Result<Vec<DriveMapping>> {
    let Some(windows) = &report.windows else {
        return Ok(Vec::new());
    };
    let volumes = disk.volumes()?;
    let volume_of = |drive: &Drive| {
        volumes.iter().find(|volume| {
            let uuid = volume.entry().and_then(Partition::uuid).unwrap_or_default();
            match (&drive.partition, &drive.disk) {
                (Some(guid), _) => uuid.eq_ignore_ascii_case(guid),
                // Of an MBR it is the disk's signature and a number.
                (None, Some(disk)) => {
                    let of_disk = uuid.split('-').next().unwrap_or_default();
                    of_disk.eq_ignore_ascii_case(disk) && volume.start_bytes() == drive.offset_bytes
                }
                (None, None) => false,
            }
        })
    };
    let drives = windows.drives.iter().filter_map(|drive| {
        Some(DriveMapping {
            letter: drive.letter.trim_end_matches(':').to_owned(),
            volume: volume_of(drive)?.name().to_owned(),
        })
    });
    Ok(drives.collect())
}

/// What is said of all guests of an image.
fn json(args: &Inspect, guests: &[Guest]) -> Value {
    let systems: Vec<Value> = guests.iter().map(|guest| guest_json(args, guest)).collect();
    json!({ "systems": systems })
}

fn guest_json(args: &Inspect, guest: &Guest) -> Value {
    let mut told = document::value(&guest.report);
    if let Value::Object(fields) = &mut told {
        fields.insert("volume".to_owned(), guest.volume.as_str().into());
        let filesystems = document::value(&guest.filesystems);
        fields.insert("filesystems".to_owned(), filesystems);
        if !args.sources {
            fields.remove("sources");
        }
    }
    told
}

fn write_bill(out: &mut impl Write, bill: Bill, disk: &Disk, guests: &[Guest]) -> Result<()> {
    let [guest] = guests else {
        let reason = format!("the image has {} operating systems", guests.len());
        let error = Error::new(ErrorKind::Ambiguous, reason).in_file(disk.path());
        return Err(error.with_hint("a bill is of one: name it, as in --os 1"));
    };
    if guest.report.packages.installed.is_none() {
        let known = guest.report.problems.first();
        let why = known.map_or_else(
            || "the guest has no database of packages that is known".to_owned(),
            |problem| format!("{}: {}", problem.file, problem.reason),
        );
        let reason = format!("there is nothing to bill: {why}");
        return Err(Error::new(ErrorKind::Unsupported, reason).in_file(disk.path()));
    }
    let format = match bill {
        Bill::Spdx => SbomFormat::Spdx,
        Bill::Cyclonedx => SbomFormat::CycloneDx,
    };
    let file = disk
        .path()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let sbom = sbom(&guest.report, format, &file, created());
    serde_json::to_writer_pretty(&mut *out, &sbom).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Now, or what `SOURCE_DATE_EPOCH` says, so that a bill can be made again
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn created() -> Timestamp {
    let said = std::env::var("SOURCE_DATE_EPOCH").ok();
    match said.and_then(|seconds| seconds.parse().ok()) {
        Some(seconds) => Timestamp {
            seconds,
            nanoseconds: 0,
        },
        None => Timestamp::now(),
    }
}
