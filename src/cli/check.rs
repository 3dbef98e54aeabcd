//! The command `diskfs check`.

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

/// Check and repair filesystems with their own programs, in a microVM
///
/// Each filesystem of the image, or only the selected volume, is checked by the program for its
/// type (`e2fsck`, `xfs_repair`, `btrfs check`, `fsck.f2fs`, `fsck.vfat`, `fsck.exfat`, `ntfsfix`).
/// Without --repair nothing is written to the image: a journal is replayed in memory only. With
/// --repair, damage is repaired, and the filesystem is checked again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs check debian.qcow2
  diskfs check -v --volume vg0/data lab.qcow2
  diskfs check --repair --volume p2 broken.raw

Exits with code 5 if a filesystem is damaged.")]
pub(super) struct Check {
    /// The image to check
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Repair damaged filesystems
    #[arg(long)]
    repair: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// The result of checking one volume.
struct Checked {
    volume: String,
    kind: &'static str,
    is_clean: bool,
    command: String,
    output: String,
}

pub(super) fn run(args: &Check, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("to check")?;
    let disk = if args.repair {
        args.source.open_writable(&image, None)?
    } else {
        args.source.open(&image)?
    };
    let checked = args.check_all(&disk, session);
    session.print_warnings(&disk);
    let closed = disk.close();
    let checked = checked?;
    closed?;
    print_results(session, &checked)?;
    for damaged in checked.iter().filter(|checked| !checked.is_clean) {
        let reason = format!(
            "volume {} is damaged: `{}` reports: {}",
            damaged.volume,
            damaged.command,
            damaged.output.trim_end()
        );
        let error = Error::new(ErrorKind::Corrupt, reason);
        let hint = if args.repair {
            "the program could not repair the rest: restore a backup"
        } else {
            "--repair repairs it; make a copy of the image before"
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
            // The exit code of the repair is not used: the check afterwards decides.
            tool::work(&self.source, volume, &Work::Repair, session)?;
        }
        let options = self.source.vm.options()?;
        let kind = volume.filesystem_kind()?;
        let handler = tool::output_handler(session);
        let done = tools::check(&options, kind, volume.device()?, handler)?;
        Ok(Checked {
            volume: volume.name().to_owned(),
            kind,
            is_clean: done.is_well(),
            command: done.command,
            output: done.output,
        })
    }
}

fn print_results(session: &Session, checked: &[Checked]) -> Result<()> {
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
                    "said": checked.output,
                })
            });
            let volumes: Vec<Value> = volumes.collect();
            let document = Map::from_iter([("volumes".to_owned(), volumes.into())]);
            document::write(&mut out, session.command(), Value::Object(document))?;
        }
    }
    Ok(out.flush()?)
}
