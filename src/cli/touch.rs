//! The command `diskfs touch`.

use clap::Args;

use diskfs::vfs::{Follow, SetMetadata, SetTime, Timestamp};
use diskfs::{ErrorKind, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::Session;
use super::show::time;
use super::target::{self, TargetPlace, WriteArgs};

/// Set the times of files, and create missing files
#[derive(Debug, Args)]
#[command(after_help = "Times without an offset are UTC.

Examples:
  diskfs touch disk.qcow2:/forcefsck
  diskfs touch -d '2026-11-21 12:30' disk.qcow2:/etc/hosts
  diskfs touch -r /etc/passwd disk.qcow2:/etc/shadow")]
pub(super) struct Touch {
    /// The files to change
    #[arg(required = true, value_name = "IMG:/PATH")]
    paths: Vec<Operand>,

    /// Use this time instead of the current one: 2026-11-21 12:30, @SECONDS
    #[arg(short, long, value_name = "TIME", value_parser = time::parse)]
    date: Option<Timestamp>,

    /// Use the times of this file of the image
    #[arg(short, long, value_name = "/PATH", conflicts_with = "date")]
    reference: Option<String>,

    /// Do not create files
    #[arg(short = 'c', long)]
    no_create: bool,

    /// Change only the access time
    #[arg(short = 'a', long)]
    access: bool,

    /// Change only the modification time
    #[arg(short = 'm', long)]
    modification: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Touch, session: &mut Session) -> Result<()> {
    target::for_each(
        session,
        &args.paths,
        &args.source,
        &args.write,
        |_, place| args.touch(place),
    )
}

impl Touch {
    fn touch(&self, place: &TargetPlace) -> Result<()> {
        let inode = if self.no_create {
            match place.reader().resolve(&place.path, Follow::All) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                found => found?,
            }
        } else {
            place.find_or_create()?
        };
        let (accessed, modified) = self.times(place)?;
        let both = self.access == self.modification;
        let change = SetMetadata {
            accessed: (both || self.access).then_some(accessed),
            modified: (both || self.modification).then_some(modified),
            ..SetMetadata::default()
        };
        place
            .fs()
            .set_metadata(inode, &change)
            .map_err(|e| place.error(e.in_path(&place.path)))
    }

    fn times(&self, place: &TargetPlace) -> Result<(SetTime, SetTime)> {
        if let Some(reference) = &self.reference {
            let metadata = place.reader().metadata(reference)?;
            let at = SetTime::At;
            return Ok((at(metadata.accessed), at(metadata.modified)));
        }
        let time = self.date.map_or(SetTime::Now, SetTime::At);
        Ok((time, time))
    }
}
