//! `diskfs check`.

use std::io::Write as _;

use clap::Args;
use serde_json::{Map, Value, json};

use diskfs::vm::tools::{self, Work};
use diskfs::{Disk, Error, ErrorKind, Result, Volume};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::name::message;
use super::tool;

/// Check filesystems with their own programs, in a microVM
///
/// The program of its kind (`e2fsck`, `xfs_repair`, `btrfs check`, `fsck.f2fs`, `fsck.vfat`, `fsck.exfat`,
/// `ntfsfix`) looks at each filesystem of the image, or at the volume that is named. Without --repair
/// nothing is written: a journal is replayed in memory only. With it, what is broken is mended, and looked at
/// again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs check debian.qcow2
  diskfs check -v --volume vg0/data lab.qcow2
  diskfs check --repair --volume p2 broken.raw

The exit code is 5 when something is damaged.")]
pub(super) struct Check {
    /// The image
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Mend what is broken
    #[arg(long)]
    repair: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// What came of one volume.
struct Checked {
    volume: String,
    kind: &'static str,
    is_clean: bool,
    command: String,
    said: String,
}

pub(super) fn run(args: &Check, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("filesystems are checked")?;
    let disk = if args.repair {
        args.source.open_writable(&image, None)?
    } else {
        args.source.open(&image)?
    };
    let checked = args.check_all(&disk, session);
    session.warn_of(&disk);
    let closed = disk.close();
    let checked = checked?;
    closed?;
    tell(session, &checked)?;
    for damaged in checked.iter().filter(|checked| !checked.is_clean) {
        let reason = format!(
            "volume {} is damaged: `{}` says: {}",
            damaged.volume,
            damaged.command,
            damaged.said.trim_end()
        );
        let error = Error::new(ErrorKind::Corrupt, reason);
        let hint = if args.repair {
            "what is left is beyond its program: take a backup"
        } else {
            "--repair mends it; keep a copy before"
        };
        session.report(&error.with_hint(hint));
    }
    Ok(())
}

impl Check {
    fn check_all(&self, disk: &Disk, session: &mut Session) -> Result<Vec<Checked>> {
        let volumes = tool::volumes(&self.source, disk, &Work::Check)?;
        let mut checked = Vec::new();
        for volume in &volumes {
            match self.check(volume, session) {
                Ok(one) => checked.push(one),
                Err(error) => session.report(&error),
            }
        }
        Ok(checked)
    }

    fn check(&self, volume: &Volume, session: &Session) -> Result<Checked> {
        if self.repair {
            // What it makes of it, the check afterwards says.
            tool::work(&self.source, volume, &Work::Repair, session)?;
        }
        let options = self.source.vm.options()?;
        let kind = volume.filesystem_kind()?;
        let hear = tool::hear(session);
        let done = tools::check(&options, kind, volume.device()?, hear)?;
        Ok(Checked {
            volume: volume.name().to_owned(),
            kind,
            is_clean: done.is_well(),
            command: done.command,
            said: done.said,
        })
    }
}

fn tell(session: &Session, checked: &[Checked]) -> Result<()> {
    let mut out = stdout()?;
    match session.output() {
        Output::Text => {
            for Checked {
                volume,
                kind,
                is_clean,
                ..
            } in checked
            {
                let verdict = if *is_clean { "clean" } else { "damaged" };
                writeln!(out, "{}: {kind}, {verdict}", message(volume))?;
            }
        }
        Output::Json => {
            let volumes = checked.iter().map(|checked| {
                json!({
                    "volume": checked.volume,
                    "type": checked.kind,
                    "clean": checked.is_clean,
                    "said": checked.said,
                })
            });
            let volumes: Vec<Value> = volumes.collect();
            let document = Map::from_iter([("volumes".to_owned(), volumes.into())]);
            document::write(&mut out, session.command(), Value::Object(document))?;
        }
    }
    Ok(out.flush()?)
}
