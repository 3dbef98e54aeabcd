//! Mounting of filesystems in machines.

use std::sync::Arc;
use std::time::Instant;

use diskfs_block::BlockWrite;
use diskfs_remote::client::Remote;

use super::filesystem_kinds::{self, Access, Mounting};
use super::machine::{Machine, only_disk, serial};
use super::pool::Pool;
use super::start;
use diskfs_disk::{FallbackRequest, Result};

/// Opens a filesystem in a machine of its own, which goes back to the pool when the filesystem is
/// closed or dropped.
pub(super) fn mount(
    pool: &Pool,
    wanted: &FallbackRequest<'_>,
    device: Arc<dyn BlockWrite>,
    access: Access,
) -> Result<Arc<Remote>> {
    let mounting = filesystem_kinds::for_access(wanted.kind, access)?;
    let began = Instant::now();
    let used = mount_in_used(pool, wanted, &device, &mounting, access);
    let is_reused = used.is_some();
    let (machine, remote) = if let Some(mounted) = used {
        mounted
    } else {
        let disk = only_disk(device);
        let machine = start::start(pool.options(), &[disk])?;
        let remote = machine.mount(&serial(0), &mounting, access)?;
        (machine, remote)
    };
    tracing::info!(
        volume = wanted.volume,
        backend = %machine.kind,
        kernel = machine.client.about().kernel,
        is_reused,
        milliseconds = began.elapsed().as_millis(),
        "mounted in a microVM"
    );
    let (idle, disk) = (pool.handle(), wanted.disk);
    let remote = remote.ending_with(move |unmounted| match unmounted {
        Ok(()) => idle.put(machine, disk),
        Err(_) => drop(machine),
    });
    Ok(Arc::new(remote))
}

/// Opens a filesystem in a machine from the pool. Returns `None` if the pool has none or if
/// mounting fails: a new machine may succeed, and its error is the one that counts.
fn mount_in_used(
    pool: &Pool,
    wanted: &FallbackRequest<'_>,
    device: &Arc<dyn BlockWrite>,
    mounting: &Mounting,
    access: Access,
) -> Option<(Machine, Remote)> {
    let machine = pool.take(wanted.disk)?.with(Arc::clone(device))?;
    match machine.mount(&serial(0), mounting, access) {
        Ok(remote) => Some((machine, remote)),
        Err(error) => {
            tracing::info!(%error, "cannot mount in a machine of the pool; starting a new one");
            None
        }
    }
}
