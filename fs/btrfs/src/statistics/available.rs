//! The space of devices that is not part of a chunk (`btrfs_calc_avail_data_space`).

use crate::chunk::{Allocation, BlockGroupType, STRIPE_BYTES};
use crate::dev_item::DevItem;
use crate::volume::Volume;

/// The start of each device that Linux does not allocate (`BTRFS_DEVICE_RANGE_RESERVED`).
const RESERVED_BYTES: u64 = 1 << 20;

/// Returns the number of bytes on devices that new block groups with data could have.
pub(super) fn unallocated(volume: &Volume, data_types: BlockGroupType) -> u64 {
    let own = volume.superblock().metadata_uuid;
    let devices = volume.blocks.storage.devices.items.iter();
    // Seed devices are not written to.
    let devices: Vec<_> = devices.filter(|device| device.fsid == own).collect();
    let allocation = data_types.allocation(devices.len());
    let free = devices
        .into_iter()
        .filter_map(|device| free_bytes(device, allocation));
    let mut free: Vec<_> = free.collect();
    free.sort_unstable_by(|a, b| b.cmp(a));
    allocate(&mut free, allocation)
}

/// Returns the free bytes of a device; `None` if there are too few for a stripe.
fn free_bytes(device: &DevItem, allocation: Allocation) -> Option<u64> {
    let free = device.total_bytes.saturating_sub(device.bytes_used);
    let free = free
        .saturating_sub(free % STRIPE_BYTES)
        .checked_sub(RESERVED_BYTES)?;
    (free > min_bytes(allocation)).then_some(free)
}

fn min_bytes(allocation: Allocation) -> u64 {
    allocation.stripes_per_device.saturating_mul(STRIPE_BYTES)
}

/// Allocates all free bytes, from the devices with the least of them on. `free` is in descending
/// order.
fn allocate(free: &mut [u64], allocation: Allocation) -> u64 {
    let mut total = 0_u64;
    for count in (allocation.devices_min.max(1)..=free.len()).rev() {
        let stripes = allocation.devices.min(count);
        let Some((least, sharing)) = free.get_mut(..count).and_then(|used| {
            let start = used.len().saturating_sub(stripes);
            let least = *used.last()?;
            Some((least, used.get_mut(start..)?))
        }) else {
            break;
        };
        if least < min_bytes(allocation) {
            continue;
        }
        total = total.saturating_add(least.saturating_mul(crate::bytes::len_u64(stripes)));
        for free in sharing {
            *free = free.saturating_sub(least);
        }
    }
    total
}
