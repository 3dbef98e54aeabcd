//! The command `diskfs inspect`.

mod fleet;
mod text;
mod xml;

use std::io::Write;
use std::num::NonZero;
use std::ops::Deref;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use diskfs::document::{InspectedSystem, Sources, inspected};
use diskfs::guest;
use diskfs::inspect::{Depth, Drive, Report, SbomFormat, sbom};
use diskfs::vfs::Timestamp;
use diskfs::volume::Partition;
use diskfs::{Disk, Error, ErrorKind, Result};

use super::fleet::Shard;
use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json as document;

/// Show the operating systems, packages and users of an image
///
/// Everything is read from the guest's own files: no program of the guest is run, and nothing is
/// written. A virtual machine is only started for filesystems without a driver in diskfs. What
/// cannot be read is reported, and the rest is shown.
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
    /// The image to inspect
    #[arg(value_name = "IMG", required_unless_present_any = ["fleet", "schema"])]
    image: Option<Operand>,

    /// Also list the installed packages
    #[arg(long)]
    packages: bool,

    /// Also unpack the initramfs of each kernel, to find out which drivers it contains
    #[arg(long)]
    initramfs: bool,

    /// Show the file and line of each answer
    #[arg(long)]
    sources: bool,

    /// Write a software bill of materials (SBOM) instead: the installed packages, as JSON
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["xml", "fleet"])]
    sbom: Option<BillFormat>,

    /// Write XML instead, in the format of virt-inspector
    #[arg(long, conflicts_with = "fleet")]
    xml: bool,

    /// Print the JSON Schema of the output of --json
    #[arg(long, conflicts_with_all = ["image", "fleet"])]
    schema: bool,

    /// Inspect all images of a directory, or of a list (one path per line, - for standard input),
    /// and write one line of JSON for each
    #[arg(long, value_name = "DIR|LIST", conflicts_with = "image")]
    fleet: Option<PathBuf>,

    /// The number of images to inspect at once [default: one per processor]
    #[arg(short = 'j', long, value_name = "N", requires = "fleet")]
    jobs: Option<NonZero<u8>>,

    /// Take only a part of the list, so that several machines share it: INDEX/TOTAL, from 0/TOTAL
    #[arg(long, value_name = "INDEX/TOTAL", requires = "fleet")]
    shard: Option<Shard>,

    /// Write the lines of a fleet to FILE instead of standard output
    #[arg(long, value_name = "FILE", requires = "fleet")]
    output: Option<PathBuf>,

    /// Continue FILE: images that have an answer in it are skipped, and failed ones are inspected
    /// again
    #[arg(long, requires = "output")]
    resume: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// The format of a bill of materials.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum BillFormat {
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

/// A guest with its report.
struct Guest {
    system: InspectedSystem,
    /// The drive letters of Windows, such as `C`, and their volumes.
    drives: Vec<DriveMapping>,
}

impl Deref for Guest {
    type Target = InspectedSystem;

    fn deref(&self) -> &InspectedSystem {
        &self.system
    }
}

/// The JSON Schema of the document.
const SCHEMA: &str = include_str!("inspect/schema.json");

impl Inspect {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        let image = self.image.as_ref()?;
        Some(Needs::reading(std::slice::from_ref(image), &self.source))
    }
}

pub(super) fn run(args: &Inspect, session: &mut Session) -> Result<()> {
    if args.schema {
        return Ok(stdout()?.write_all(SCHEMA.as_bytes())?);
    }
    if let Some(images) = &args.fleet {
        return fleet::run(args, images, session);
    }
    let Some(image) = &args.image else {
        return Ok(()); // Cannot happen: clap requires an image here.
    };
    let disk = session.disk(&image.image_alone("to inspect")?, &args.source)?;
    let guests = guests(args, &disk)?;
    session.print_warnings(&disk);
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

/// Returns the systems of an image, or the system on the selected volume.
fn guests(args: &Inspect, disk: &Disk) -> Result<Vec<Guest>> {
    let depth = args.depth();
    let systems = if let Some(volume) = args.source.volume.volume(disk)? {
        vec![InspectedSystem::on_volume(&volume, depth)?]
    } else if let Some(number) = args.source.volume.os {
        let system = guest::select_system(disk, Some(number))?;
        let system = system.ok_or_else(|| guest::no_system(disk))?;
        vec![InspectedSystem::of(&system, depth)?]
    } else {
        InspectedSystem::all(disk, depth)?
    };
    let guests = systems.into_iter().map(|system| {
        let drives = drives(disk, &system.report)?;
        Ok(Guest { system, drives })
    });
    guests.collect()
}

/// A drive letter of Windows and its volume.
struct DriveMapping {
    letter: String,
    volume: String,
}

/// Maps the drive letters of Windows to volumes of the disk.
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
                // For an MBR disk, Windows records the disk's signature and the partition's offset.
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

/// Returns the reports of all guests of an image.
fn json(args: &Inspect, guests: &[Guest]) -> Value {
    let sources = if args.sources {
        Sources::Included
    } else {
        Sources::Omitted
    };
    inspected(guests.iter().map(|guest| &guest.system), sources)
}

fn write_bill(out: &mut impl Write, bill: BillFormat, disk: &Disk, guests: &[Guest]) -> Result<()> {
    let [guest] = guests else {
        let reason = format!("the image has {} operating systems", guests.len());
        let error = Error::new(ErrorKind::Ambiguous, reason).in_file(disk.path());
        return Err(error.with_hint(
            "a bill of materials covers one system: select it, for example with --os 1",
        ));
    };
    if guest.report.packages.installed.is_none() {
        let known = guest.report.problems.first();
        let why = known.map_or_else(
            || "no known package database was found in the guest".to_owned(),
            |problem| format!("{}: {}", problem.file, problem.reason),
        );
        let reason = format!("cannot write a bill of materials: {why}");
        return Err(Error::new(ErrorKind::Unsupported, reason).in_file(disk.path()));
    }
    let format = match bill {
        BillFormat::Spdx => SbomFormat::Spdx,
        BillFormat::Cyclonedx => SbomFormat::CycloneDx,
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

/// Returns the current time, or `SOURCE_DATE_EPOCH` if set, which makes bills reproducible
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn created() -> Timestamp {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    match epoch.and_then(|seconds| seconds.parse().ok()) {
        Some(seconds) => Timestamp {
            seconds,
            nanoseconds: 0,
        },
        None => Timestamp::now(),
    }
}
