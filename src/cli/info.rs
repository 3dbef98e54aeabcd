//! The command `diskfs info`.

mod document;
mod text;

use std::io::Write;

use clap::Args;

use diskfs::luks::Header;
use diskfs::vfs::{Identity, Statistics};
use diskfs::{ChosenDriver, Content, ContentClass, Disk, Error, Result, Volume};

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

/// A volume with its contents.
struct VolumeReport {
    volume: Volume,
    content: Option<Content>,
    /// The driver of the filesystem.
    driver: Option<ChosenDriver>,
    filesystem: Option<(Identity, Statistics)>,
    luks: Option<Header>,
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
            json::write(
                &mut out,
                session.command(),
                document::document(&disk, &volumes),
            )?;
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
    volumes
        .into_iter()
        .map(|volume| report(session, volume))
        .collect()
}

fn report(session: &mut Session, volume: Volume) -> VolumeReport {
    if volume.problem().is_some() {
        // The problem is shown with the partition table, group or array, and is not a failure of
        // this command.
        return VolumeReport {
            volume,
            content: None,
            driver: None,
            filesystem: None,
            luks: None,
        };
    }
    let content = volume.content().map(Option::<&Content>::cloned);
    let content = content.unwrap_or_else(|error| failed(session, &error));
    let driver = content
        .as_ref()
        .filter(|content| content.class == ContentClass::Filesystem)
        .and_then(|_| {
            let driver = volume.driver();
            driver.map_or_else(|error| failed(session, &error), Some)
        });
    let is_opened = matches!(
        driver,
        Some(ChosenDriver::Native | ChosenDriver::Fallback(_))
    );
    let filesystem = content
        .as_ref()
        .filter(|_| is_opened)
        .filter(|content| content.is_readable())
        .and_then(|_| {
            let opened = volume.filesystem();
            let details = opened.and_then(|opened| Ok((opened.identity(), opened.statistics()?)));
            details.map_or_else(|error| failed(session, &error), Some)
        });
    let luks = volume.luks();
    let luks = luks.unwrap_or_else(|error| failed(session, &error));
    VolumeReport {
        volume,
        content,
        driver,
        filesystem,
        luks,
    }
}

fn failed<T>(session: &mut Session, error: &Error) -> Option<T> {
    session.report(error);
    None
}
