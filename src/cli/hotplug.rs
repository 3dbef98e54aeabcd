//! The command `diskfs hotplug`.

mod add;
mod commands;
mod disks;
mod list;
mod machine;
mod name;
mod qmp;
mod remove;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use diskfs::Result;

use super::session::Session;

/// Attach disks to a running QEMU, and detach them
///
/// A disk is exported by NBD on a Unix socket, and attached through QEMU's monitor (QMP). `add` serves
/// it in the foreground until it is removed or a signal comes. `list` shows the disks with the phases
/// of KubeVirt's hotplugged volumes.
///
/// QEMU's monitor serves one client at a time: give a monitor of its own, as by
/// `-qmp unix:SOCKET,server,nowait`, if another program uses one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs hotplug add data.qcow2 --qmp /run/qmp.sock --id data
  diskfs hotplug list --qmp /run/qmp.sock
  diskfs hotplug remove data --qmp /run/qmp.sock")]
pub(super) struct HotplugArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(Box<add::Add>),
    Remove(remove::Remove),
    List(list::List),
}

/// The option that selects the virtual machine.
#[derive(Debug, Args)]
struct QmpArgs {
    /// The Unix socket of QEMU's monitor
    #[arg(long, value_name = "SOCKET")]
    qmp: PathBuf,
}

impl QmpArgs {
    fn connect(&self) -> Result<qmp::Qmp> {
        qmp::Qmp::connect(&self.qmp)
    }
}

pub(super) fn run(args: &HotplugArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::Add(args) => add::run(args, session),
        Action::Remove(args) => remove::run(args, session),
        Action::List(args) => list::run(args, session),
    }
}
