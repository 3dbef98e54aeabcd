//! The guest's memory, which the front end shares.

use std::fs::File;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// The guest's memory at one time. A clone stays usable after the front end has set another.
pub(super) type Memory = Arc<GuestMemoryMmap>;

/// The current memory, which all rings use; initially empty.
#[derive(Debug, Default)]
pub(super) struct SharedMemory(RwLock<Memory>);

impl SharedMemory {
    pub(super) fn current(&self) -> Memory {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    pub(super) fn replace(&self, memory: GuestMemoryMmap) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(memory);
    }
}

/// The front end's own addresses of the memory regions, by which it names the rings.
#[derive(Debug, Default)]
pub(super) struct FrontEndAddresses(Vec<Mapping>);

#[derive(Debug)]
struct Mapping {
    front_end: u64,
    guest: u64,
    len_bytes: u64,
}

impl FrontEndAddresses {
    /// Converts an address of the front end into one of the guest.
    pub(super) fn guest_address(&self, front_end: u64) -> Option<u64> {
        self.0.iter().find_map(|mapping| {
            let within = front_end.checked_sub(mapping.front_end)?;
            (within < mapping.len_bytes).then(|| mapping.guest.checked_add(within))?
        })
    }
}

/// Maps the memory regions that the front end shares.
pub(super) fn map(
    regions: &[VhostUserMemoryRegion],
    files: Vec<File>,
) -> io::Result<(GuestMemoryMmap, FrontEndAddresses)> {
    let mut mapped = Vec::with_capacity(regions.len());
    let mut addresses = Vec::with_capacity(regions.len());
    for (region, file) in regions.iter().zip(files) {
        addresses.push(Mapping {
            front_end: region.user_addr,
            guest: region.guest_phys_addr,
            len_bytes: region.memory_size,
        });
        mapped.push(map_region(region, file)?);
    }
    let memory = GuestMemoryMmap::from_regions(mapped).map_err(io::Error::other)?;
    Ok((memory, FrontEndAddresses(addresses)))
}

fn map_region(region: &VhostUserMemoryRegion, file: File) -> io::Result<GuestRegionMmap> {
    let (offset, len) = (region.mmap_offset, region.memory_size);
    let end = offset.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
    let metadata = file.metadata()?;
    // An access past the end of the mapped file would end the process (SIGBUS).
    if !metadata.is_file() || metadata.len() < end {
        let reason = format!(
            "invalid memory region: {len} bytes at {offset:#x} are not within the shared file"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mapping = region.mmap_region(file).map_err(io::Error::other)?;
    let address = GuestAddress(region.guest_phys_addr);
    GuestRegionMmap::new(mapping, address).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len_bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len_bytes).unwrap();
        file
    }

    #[test]
    fn addresses_of_the_front_end_are_found_in_its_regions_only() {
        let regions = [
            VhostUserMemoryRegion::new(0x10_0000, 0x1000, 0x7000_0000, 0),
            VhostUserMemoryRegion::new(0x20_0000, 0x1000, 0x7100_0000, 0x1000),
        ];
        let (_, addresses) = map(&regions, vec![file(0x1000), file(0x2000)]).unwrap();
        let find = |address| addresses.guest_address(address);
        assert_eq!(find(0x7000_0000), Some(0x10_0000));
        assert_eq!(find(0x7100_0fff), Some(0x20_0fff));
        assert_eq!(find(0x6fff_ffff), None);
        assert_eq!(find(0x7000_1000), None);
        assert_eq!(find(u64::MAX), None);
    }

    #[test]
    fn what_a_file_is_too_short_for_is_not_mapped() {
        let region = VhostUserMemoryRegion::new(0, 0x2000, 0, 0x1000);
        assert!(map(&[region], vec![file(0x3000)]).is_ok());
        assert!(map(&[region], vec![file(0x2fff)]).is_err());
    }

    #[test]
    fn regions_that_overlap_are_refused() {
        let region = VhostUserMemoryRegion::new(0, 0x2000, 0, 0);
        let other = VhostUserMemoryRegion::new(0x1000, 0x2000, 0x10000, 0);
        assert!(map(&[region, other], vec![file(0x2000), file(0x2000)]).is_err());
    }
}
