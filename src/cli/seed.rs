//! The command `diskfs seed`.

mod cloud_init;
mod config_drive;
mod identity;
mod input;
mod lint;
mod no_cloud;
mod output;
mod sysprep;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use diskfs::Result;
use diskfs_iso9660::{NewFile, NewVolume};

use super::mkfs::source_date;
use super::session::Session;

/// The size of which an image is a multiple: that of KubeVirt's images.
const ALIGN_BYTES: usize = 1 << 20;

/// Make the disk that configures a guest at its first boot
///
/// The disk is for cloud-init, for other readers of OpenStack's configuration drives, or for Windows
/// Setup.
///
/// The disk is an ISO 9660 image with the names of Rock Ridge and Joliet, padded to 1 MiB. The same
/// files make the same bytes: all times are `SOURCE_DATE_EPOCH`, or else the start of 1970. The image
/// appears under its name only when it is complete; an existing file is kept without --force.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs seed nocloud --user-data user-data --hostname web1 --ssh-key key.pub -o seed.iso
  diskfs seed configdrive --user-data user-data --hostname web1 -o config.iso
  diskfs seed sysprep --unattend unattend.xml -o sysprep.iso")]
pub(super) struct SeedArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    Nocloud(no_cloud::NoCloud),
    Configdrive(config_drive::ConfigDrive),
    Sysprep(sysprep::Sysprep),
}

/// The options of the image.
#[derive(Debug, Args)]
struct OutputArgs {
    /// The image to make; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Replace an existing file with the new image
    #[arg(long)]
    force: bool,
}

/// A seed to write.
struct Seed<'a> {
    /// The name of the kind, as on the command line.
    kind: &'static str,
    /// The volume identifier by which the guest finds the disk.
    label: &'static str,
    files: Vec<NewFile>,
    /// Problems that do not prevent making the image.
    warnings: Vec<String>,
    output: &'a OutputArgs,
}

pub(super) fn run(args: &SeedArgs, session: &mut Session) -> Result<()> {
    let seed = match &args.kind {
        Kind::Nocloud(args) => args.seed()?,
        Kind::Configdrive(args) => args.seed()?,
        Kind::Sysprep(args) => args.seed()?,
    };
    let time = source_date()?.map_or(0, |time| time.seconds);
    let volume = NewVolume {
        identifier: seed.label.to_owned(),
        files: seed.files.clone(),
        time_seconds: u64::try_from(time).unwrap_or_default(),
        align_bytes: ALIGN_BYTES,
    };
    let image = volume.image()?;
    output::write(&seed.output.output, seed.output.force, &image)?;
    for warning in &seed.warnings {
        session.warn(warning);
    }
    output::print(&seed, image.len(), session)
}

/// Returns a file of the image.
fn file(path: &str, contents: Vec<u8>) -> NewFile {
    NewFile {
        path: path.to_owned(),
        contents,
    }
}
