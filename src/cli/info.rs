//! The command `diskfs info`.

mod text;

use std::io::Write;

use clap::Args;

use diskfs::document::{self, VolumeReport};
use diskfs::{Disk, Error, Result, Volume};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json;

/// Show an image's format, partitions, volumes and filesystems
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs info disk.qcow2
  diskfs info --json disk.qcow2 | jq '.filesystems[].label'")]
pub(super) struct Info {
    /// The image to show
    #[arg(value_name = "IMG")]
    image: Operand,

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
        Output::Text => out.write_all(text::text(&disk, &volumes).as_bytes())?,
    }
    Ok(out.flush()?)
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
