//! `diskfs hotplug remove`, and the removal at the end of `add`.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::name::DiskName;
use super::qmp::Qmp;
use super::{QmpArgs, disks, machine};
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;

/// The number of times that the guest is asked to release a disk.
const ATTEMPTS: usize = 2;

/// The time until a block node is free after its device was deleted.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// The time between two attempts to delete a block node.
const RELEASE_STEP: Duration = Duration::from_millis(100);

/// Detach a disk from a running QEMU
///
/// Asks the guest to release the disk, waits until it has done that, and asks once more after the
/// timeout. A SCSI disk is removed at once; a virtio disk only if the guest's operating system answers.
/// The `diskfs hotplug add` that serves the disk then ends.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  diskfs hotplug remove data --qmp /run/qmp.sock")]
pub(super) struct Remove {
    /// The name of the disk
    #[arg(value_name = "NAME")]
    name: DiskName,

    #[command(flatten)]
    qmp: QmpArgs,

    /// The seconds to wait for the guest, each of two times
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    timeout: u32,

    /// Only check that the disk can be removed
    #[arg(long)]
    dry_run: bool,

    /// Accepted for virtctl's command lines, where it has no effect either
    #[arg(long, hide = true)]
    persist: bool,
}

pub(super) fn run(args: &Remove, session: &Session) -> Result<()> {
    let mut qmp = args.qmp.connect()?;
    if args.dry_run {
        find(&mut qmp, &args.name)?;
    } else {
        detach(
            &mut qmp,
            &args.name,
            Duration::from_secs(args.timeout.into()),
        )?;
    }
    if session.output() == Output::Json {
        let mut out = stdout()?;
        let body = json!({ "removed": args.name.as_str(), "dry_run": args.dry_run });
        document::write(&mut out, session.command(), body)?;
        out.flush()?;
    }
    Ok(())
}

/// Detaches a disk. The guest has twice this time to release it.
pub(super) fn detach(qmp: &mut Qmp, name: &DiskName, time: Duration) -> Result<()> {
    let has_device = find(qmp, name)?;
    if has_device {
        delete_device(qmp, name, time)?;
    }
    delete_node(qmp, name)
}

/// Finds a disk of ours, and returns true if it has a device.
fn find(qmp: &mut Qmp, name: &DiskName) -> Result<bool> {
    let node = name.node();
    let disks = disks::list(qmp)?;
    if let Some(disk) = disks.iter().find(|disk| disk.node == node) {
        return Ok(disk.device.is_some());
    }
    let id = name.as_str();
    if machine::has_device(qmp, id)? {
        let reason = format!("device `{id}` was not attached by diskfs");
        return Err(Error::new(ErrorKind::Denied, reason));
    }
    let error = Error::new(ErrorKind::NotFound, format!("no such disk: `{id}`"));
    Err(error.with_hint("`diskfs hotplug list` lists the disks"))
}

/// Deletes the device, and waits until the guest has released it.
fn delete_device(qmp: &mut Qmp, name: &DiskName, time: Duration) -> Result<()> {
    let id = name.as_str();
    for _ in 0..ATTEMPTS {
        if let Err(reason) = qmp.execute("device_del", &json!({ "id": id }))? {
            if !machine::has_device(qmp, id)? {
                return Ok(());
            }
            // The guest was asked before, and can still answer.
            if !reason.contains("already in the process of unplug") {
                return Err(qmp.refused("device_del", &reason));
            }
        }
        let end = Instant::now()
            .checked_add(time)
            .unwrap_or_else(Instant::now);
        let names = ["DEVICE_DELETED", "DEVICE_UNPLUG_GUEST_ERROR"];
        match qmp.wait_for(&names, id, end)? {
            Some(event) if event.name == "DEVICE_DELETED" => return Ok(()),
            Some(_) => {
                let reason = format!("the guest refused to release disk `{id}`");
                let error = Error::new(ErrorKind::Locked, reason);
                return Err(error.with_hint("unmount its filesystems in the guest, and try again"));
            }
            None if !machine::has_device(qmp, id)? => return Ok(()),
            None => {}
        }
    }
    Err(not_released(qmp, id)?)
}

/// Returns the error for a guest that does not answer.
fn not_released(qmp: &mut Qmp, id: &str) -> Result<Error> {
    let status = qmp.must("query-status", &json!({}))?;
    let text = status
        .get("status")
        .and_then(Value::as_str)
        .unwrap_or("unknown");
    let is_running = status.get("running").and_then(Value::as_bool);
    let (why, hint) = if is_running == Some(false) {
        let text = crate::cli::show::name::message(text);
        (
            format!("the virtual machine does not run (status {text})"),
            "resume it (`cont` in QEMU's monitor); the guest then releases the disk, or remove it again",
        )
    } else {
        (
            "the guest does not answer".to_owned(),
            "its operating system must support hot-unplug (pciehp, acpiphp); remove the disk again \
             when it has started",
        )
    };
    let reason = format!("disk `{id}` was not released: {why}");
    Ok(Error::new(ErrorKind::Locked, reason).with_hint(hint))
}

/// Deletes the block node, which QEMU can use for a moment after its device is gone.
fn delete_node(qmp: &mut Qmp, name: &DiskName) -> Result<()> {
    let node = json!({ "node-name": name.node() });
    let end = Instant::now()
        .checked_add(RELEASE_TIME)
        .unwrap_or_else(Instant::now);
    loop {
        match qmp.execute("blockdev-del", &node)? {
            Ok(_) => return Ok(()),
            Err(reason) if !reason.contains("in use") || Instant::now() > end => {
                return Err(qmp.refused("blockdev-del", &reason));
            }
            Err(_) => std::thread::sleep(RELEASE_STEP),
        }
    }
}
