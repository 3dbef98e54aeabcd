//! Volumes that only the kernel's device-mapper creates, compared with what it read from them
//! itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, ExtentKind, Memory, Result, Slice};
use diskfs_fixtures::{image, kernel_sums, sha256_hex};
use diskfs_volume::lvm::{PhysicalVolume, PvEntry, VolumeGroup, volume_groups};
use diskfs_volume::read_table;

use crate::disk::contents;

/// A disk whose second partition has the checksums of what the kernel read, and the group on it.
pub(crate) struct Disk {
    pub(crate) bytes: Arc<Memory>,
    physical: Vec<(PhysicalVolume, Slice<Memory>)>,
    pub(crate) group: VolumeGroup,
    pub(crate) sums: BTreeMap<String, String>,
}

impl Disk {
    pub(crate) fn new(name: &str) -> Self {
        Self::of(std::fs::read(image(name).path()).unwrap())
    }

    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        let bytes = Arc::new(Memory::new(bytes));
        let table = read_table(&*bytes).unwrap().unwrap();
        let open = |number: usize| table.partitions[number].open(Arc::clone(&bytes)).unwrap();
        let sums = kernel_sums(&contents(&open(1)));
        let slices = (0..table.partitions.len()).filter(|n| *n != 1).map(open);
        let physical: Vec<_> = slices
            .map(|slice| (PhysicalVolume::read(&slice).unwrap().unwrap(), slice))
            .collect();
        let group = volume_groups(physical.iter().map(|(read, _)| read)).remove(0);
        Self {
            bytes,
            physical,
            group,
            sums,
        }
    }

    fn find(&self, entry: &PvEntry) -> Option<Arc<Slice<Memory>>> {
        let mut all = self.physical.iter();
        let (_, slice) = all.find(|(read, _)| read.id == entry.id)?;
        Some(Arc::new(slice.clone()))
    }

    pub(crate) fn open(&self, name: &str) -> Result<impl BlockRead + use<>> {
        let volume = self.group.logical_volume(name).expect(name);
        self.group.open(volume, &|entry| Ok(self.find(entry)))
    }

    pub(crate) fn open_writable(&self, name: &str) -> Result<impl BlockWrite + use<>> {
        let volume = self.group.logical_volume(name).expect(name);
        let find = |entry: &PvEntry| Ok(self.find(entry));
        self.group.open_writable(volume, &find)
    }

    /// Checks that all volumes have the contents that the kernel read.
    fn check(&self) {
        for (name, sum) in &self.sums {
            let opened = self.open(name).unwrap();
            assert_eq!(sha256_hex(&contents(&opened)), *sum, "{name}");
            check_extents(&opened);
        }
    }
}

/// Ranges that are reported as zeroes are zeroes, and runs are as long as possible.
fn check_extents(device: &dyn BlockRead) {
    let (mut at, mut runs) = (0, 0);
    while at < device.size_bytes() {
        let extent = device.extent_at(at).unwrap();
        assert!(extent.len_bytes > 0 && at + extent.len_bytes <= device.size_bytes());
        if extent.kind.reads_as_zeroes() {
            let mut bytes = vec![1; usize::try_from(extent.len_bytes).unwrap()];
            device.read_at(at, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "at {at}");
        }
        at += extent.len_bytes;
        runs += 1;
    }
    assert!(runs <= 1 + device.size_bytes() / (32 << 10), "{runs}");
}

#[test]
fn thin_volumes_are_what_the_kernel_read() {
    let disk = Disk::new("lvm-thin.raw");
    assert_eq!(disk.sums.len(), 6);
    disk.check();
    let visible = disk.group.logical_volumes.iter().filter(|lv| lv.visible);
    let visible: Vec<_> = visible.map(|lv| lv.name.as_str()).collect();
    assert_eq!(visible.len(), 6, "{visible:?}");
    let pool = disk.group.logical_volume("pool").unwrap();
    assert!(pool.problem.is_some());
    assert_eq!(
        disk.open("pool").err().unwrap().kind(),
        ErrorKind::Unsupported
    );
}

/// The block size of the pool in bytes.
const BLOCK: u64 = 64 << 10;

#[test]
fn holes_of_thin_volumes_are_told() {
    let disk = Disk::new("lvm-thin.raw");
    let thin = disk.open("thin1").unwrap();
    let hole = thin.extent_at(1016 * BLOCK).unwrap();
    assert_eq!(hole.kind, ExtentKind::Unallocated);
    assert_eq!(hole.len_bytes, 8 * BLOCK);
    // Blocks that were written at once are contiguous.
    let data = thin.extent_at(1010 * BLOCK + 512).unwrap();
    assert_eq!(
        (data.kind, data.len_bytes),
        (ExtentKind::Data, 6 * BLOCK - 512)
    );
    // A block that comes from the external origin.
    let onext = disk.open("onext").unwrap();
    let end = onext.extent_at(26 * BLOCK).unwrap();
    assert_eq!(
        (end.kind, end.len_bytes),
        (ExtentKind::Unallocated, 6 * BLOCK)
    );
}

#[test]
fn thin_volumes_are_written_where_nobody_else_is() {
    let disk = Disk::new("lvm-thin.raw");
    let before: Vec<_> = ["thin1", "snap1", "snap2", "onext"]
        .map(|name| contents(&disk.open(name).unwrap()))
        .into();
    let thin = disk.open_writable("thin1").unwrap();
    let kind = |answer: Result<()>| answer.map_err(|error| error.kind());
    let unsupported = Err(ErrorKind::Unsupported);
    // A block that was written again since the snapshot, one that is shared with it, and one that
    // is not allocated.
    let (own, shared, hole) = (999 * BLOCK, 1010 * BLOCK, 1016 * BLOCK);
    assert_eq!(kind(thin.write_at(shared, &[1])), unsupported);
    assert_eq!(kind(thin.write_at(hole, &[1])), unsupported);
    assert_eq!(kind(thin.write_zeroes(shared, 4096)), unsupported);
    assert_eq!(kind(thin.write_at(own + BLOCK - 1, &[1, 1])), unsupported);
    assert_eq!(kind(thin.write_zeroes(hole, 3 * BLOCK)), Ok(()));
    assert_eq!(kind(thin.discard(0, thin.size_bytes())), Ok(()));
    let names = ["thin1", "snap1", "snap2", "onext"];
    let is_as_before = |name: &str, expected: &Vec<u8>| {
        assert!(contents(&disk.open(name).unwrap()) == *expected, "{name}");
    };
    names
        .iter()
        .zip(&before)
        .skip(1)
        .for_each(|(name, expected)| is_as_before(name, expected));
    assert_eq!(kind(thin.write_at(own + 5, b"written")), Ok(()));
    let mut expected = before;
    let at = usize::try_from(own + 5).unwrap();
    let _ = expected[0].splice(at..at + 7, *b"written");
    names
        .iter()
        .zip(&expected)
        .skip(1)
        .for_each(|(name, expected)| is_as_before(name, expected));
    let mut found = [0; 7];
    disk.open("thin1")
        .unwrap()
        .read_at(own + 5, &mut found)
        .unwrap();
    assert_eq!(&found, b"written");
    // Without a snapshot, all allocated blocks; on a RAID, both copies.
    let thin = disk.open_writable("thin2").unwrap();
    assert_eq!(kind(thin.write_at(4 * 4096, b"twice")), Ok(()));
    drop(thin);
    let legs = ["rpool_tdata_rimage_0", "rpool_tdata_rimage_1"]
        .map(|leg| contents(&disk.open(leg).unwrap()));
    assert!(legs[0].windows(5).any(|bytes| bytes == b"twice"));
    assert!(legs[0] == legs[1]);
}

#[test]
fn cached_volumes_are_what_the_kernel_read() {
    let disk = Disk::new("lvm-cache.raw");
    assert_eq!(disk.sums.len(), 3);
    disk.check();
    for name in ["back", "pooled"] {
        let origin = disk.open(&format!("{name}_corig")).unwrap();
        let sum = sha256_hex(&contents(&origin));
        assert_ne!(sum, disk.sums[name], "{name} has no dirty blocks");
    }
    let visible = disk.group.logical_volumes.iter().filter(|lv| lv.visible);
    let visible: Vec<_> = visible.map(|lv| (&*lv.name, &*lv.layout)).collect();
    assert_eq!(
        visible,
        [("through", "cache"), ("back", "cache"), ("pooled", "cache")]
    );
    let refused = disk.open_writable("through").err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
