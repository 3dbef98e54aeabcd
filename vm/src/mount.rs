//! Mounting of filesystems in machines.

use std::sync::Arc;
use std::time::Instant;

use diskfs_block::BlockWrite;
use diskfs_remote::client::Remote;

use super::filesystem_kinds::{self, Access, Mounting};
use super::machine::{MAX_DISKS, disks_of};
use super::pool::{Lease, LeaseEnd, Pool};
use super::start;
use diskfs_disk::{Error, ErrorKind, FallbackRequest, Result};

/// Opens the filesystem on `devices` in the machine of its disk. Its place in the machine becomes
/// free when the filesystem is closed or dropped.
pub(super) fn mount(
    pool: &Pool,
    wanted: &FallbackRequest<'_>,
    devices: Vec<Arc<dyn BlockWrite>>,
    access: Access,
) -> Result<Arc<Remote>> {
    let mounting = filesystem_kinds::for_access(wanted.kind, access)?;
    if devices.len() > MAX_DISKS {
        let reason = format!("too many devices for a microVM: at most {MAX_DISKS}");
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    let began = Instant::now();
    let mut turn = pool.turn(wanted.disk);
    if let Some(lease) = pool.take(wanted.disk, devices.len()) {
        drop(turn);
        if let Some(remote) = mount_in_used(lease, &devices, &mounting, access) {
            return Ok(opened(remote, wanted, began, true));
        }
        turn = pool.turn(wanted.disk);
    }
    let count = devices.len();
    let disks = disks_of(devices, wanted.volumes_of_disk.clamp(count, MAX_DISKS));
    let machine = start::start(pool.options(), &disks)?;
    let lease = pool.add(machine, wanted.disk, count);
    drop(turn);
    let mounted = mount_in(lease, &mounting, access)?;
    Ok(opened(mounted, wanted, began, false))
}

/// A mounted filesystem and its place in a machine.
type MountedIn = (Remote, Lease);

/// Mounts the filesystem on the disks of a lease, which ends if that fails.
fn mount_in(lease: Lease, mounting: &Mounting, access: Access) -> Result<MountedIn> {
    match lease.machine().mount(lease.disks(), mounting, access) {
        Ok(remote) => Ok((remote, lease)),
        Err(error) => {
            lease.end(LeaseEnd::NeverMounted);
            Err(error)
        }
    }
}

/// Opens a filesystem in a machine that has mounted something. Returns `None` if mounting fails: a
/// new machine may succeed, and its error is the one that counts. A kernel refuses a clone of what
/// it has mounted, for example.
fn mount_in_used(
    lease: Lease,
    devices: &[Arc<dyn BlockWrite>],
    mounting: &Mounting,
    access: Access,
) -> Option<MountedIn> {
    if !lease.machine().attach(lease.disks(), devices.to_vec()) {
        lease.end(LeaseEnd::NeverMounted);
        return None;
    }
    let mounted = mount_in(lease, mounting, access);
    let mounted = mounted.inspect_err(|error| {
        tracing::info!(%error, "cannot mount in a used machine; starting a new one");
    });
    mounted.ok()
}

/// Logs that a filesystem was opened, and returns it.
fn opened(
    (remote, lease): MountedIn,
    wanted: &FallbackRequest<'_>,
    began: Instant,
    is_reused: bool,
) -> Arc<Remote> {
    let machine = lease.machine();
    tracing::info!(
        volume = wanted.volume,
        backend = %machine.kind,
        kernel = machine.client.about().kernel,
        is_reused,
        milliseconds = began.elapsed().as_millis(),
        "mounted in a microVM"
    );
    Arc::new(remote.ending_with(move |unmounted| {
        lease.end(match unmounted {
            Ok(()) => LeaseEnd::Unmounted,
            Err(_) => LeaseEnd::Failed,
        });
    }))
}
