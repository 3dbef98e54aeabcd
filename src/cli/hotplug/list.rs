//! `diskfs hotplug list`.

use std::io::Write;

use clap::Args;
use diskfs::Result;
use serde_json::{Value, json};

use super::QmpArgs;
use super::disks::{self, AttachedDisk};
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;
use crate::cli::show::name::message;
use crate::cli::show::size::units;

/// List the disks that diskfs has attached
///
/// The phase is that of KubeVirt's hotplugged volumes: Ready if the guest has the disk, and
/// `AttachedToNode` if QEMU has opened it, but no device uses it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs hotplug list --qmp /run/qmp.sock
  diskfs hotplug list --json --qmp /run/qmp.sock")]
pub(super) struct List {
    #[command(flatten)]
    qmp: QmpArgs,
}

pub(super) fn run(args: &List, session: &Session) -> Result<()> {
    let disks = disks::list(&mut args.qmp.connect()?)?;
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let disks: Vec<Value> = disks.iter().map(json_of).collect();
            document::write(&mut out, session.command(), json!({ "disks": disks }))?;
        }
        Output::Text => {
            for disk in &disks {
                let name = message(disk.device.as_deref().unwrap_or(&disk.node));
                let access = if disk.is_read_only {
                    "read-only"
                } else {
                    "read-write"
                };
                let (phase, size) = (disk.phase(), units(disk.size_bytes));
                let export = message(&disk.export);
                writeln!(out, "{name}: {phase}, {size}, {access}, {export}")?;
            }
        }
    }
    Ok(out.flush()?)
}

fn json_of(disk: &AttachedDisk) -> Value {
    json!({
        "name": disk.device,
        "phase": disk.phase(),
        "driver": disk.driver,
        "node": disk.node,
        "size_bytes": disk.size_bytes,
        "read_only": disk.is_read_only,
        "export": disk.export,
    })
}
