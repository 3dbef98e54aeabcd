//! The command `diskfs info`.

mod map;
mod text;

use std::io::{self, Write};

use clap::Args;

use diskfs::document::{self, VolumeReport};
use diskfs::{Disk, Error, ErrorKind, Result, Volume};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::{has_colours, json};

/// Show an image's format, partitions, volumes and filesystems
#[derive(Debug, Args)]
#[command(
    after_help = "The map of --map shows the disk to scale. Each file of the image's chain has a row: █ is stored in
it, ▓ ▒ ░ in parts, · not at all. Below are the partitions.

Examples:
  diskfs info disk.qcow2
  diskfs info --map overlay.qcow2
  diskfs info --json disk.qcow2 | jq '.filesystems[].label'"
)]
pub(super) struct Info {
    /// The image to show
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Also draw a map of the disk: what is stored in which file, and the partitions
    #[arg(long)]
    map: bool,

    #[command(flatten)]
    source: SourceArgs,
}

impl Info {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(std::slice::from_ref(&self.image), &self.source)
    }
}

pub(super) fn run(args: &Info, session: &mut Session) -> Result<()> {
    let disk = session.disk(&args.image.split().image, &args.source)?;
    let volumes = reports(args, session, &disk);
    session.print_warnings(&disk);
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            json::write(&mut out, session.command(), document::info(&disk, &volumes))?;
        }
        Output::Text => {
            out.write_all(text::text(&disk, &volumes).as_bytes())?;
            if args.map {
                draw(session, &disk, &mut out)?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Draws the map; a problem of the image's tables is reported.
fn draw(session: &mut Session, disk: &Disk, out: &mut dyn Write) -> Result<()> {
    match map::map(disk, has_colours(&io::stdout())) {
        Ok(Some(map)) => write!(out, "\n{map}")?,
        Ok(None) => session.report(&Error::new(
            ErrorKind::Invalid,
            "no map: the disk is not read from an image",
        )),
        Err(error) => session.report(&error),
    }
    Ok(())
}

/// Returns the volumes with their contents. Errors are reported, and the other volumes are still
/// shown.
fn reports(args: &Info, session: &mut Session, disk: &Disk) -> Vec<VolumeReport> {
    let volumes = match args.source.volume.volume(disk) {
        Ok(Some(volume)) => Ok(vec![volume]),
        Ok(None) => disk.volumes().map(<[Volume]>::to_vec),
        Err(error) => Err(error),
    };
    let volumes = volumes.unwrap_or_else(|error| {
        session.report(&error);
        Vec::new()
    });
    let mut failed = |error: &Error| session.report(error);
    let volumes = volumes.into_iter();
    volumes
        .map(|volume| VolumeReport::of(volume, &mut failed))
        .collect()
}
