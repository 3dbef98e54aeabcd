//! Reads of parts of files, and extents, compared with whole files.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diskfs_block::BlockRead;
use diskfs_btrfs::{Btrfs, MissingDevice, Options, device_info, missing_devices};
use diskfs_fixtures::{TempImage, image};
use diskfs_vfs::{ErrorKind, FileExtent, FileExtentKind, FileType, FsRead, InodeNumber, walk};

/// The fixtures, each with its devices.
const FIXTURES: [&[&str]; 8] = [
    &["btrfs-extents"],
    &["btrfs-extents-holes"],
    &["btrfs-zstd"],
    &["btrfs-lzo"],
    &["btrfs-zlib"],
    &["btrfs-nodatacow"],
    &["btrfs-raid0-a", "btrfs-raid0-b"],
    &["btrfs-raid5-a", "btrfs-raid5-b", "btrfs-raid5-c"],
];

/// A sequence of numbers that look random (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

fn index(number: u64) -> usize {
    number.try_into().unwrap()
}

fn read(fs: &Btrfs, inode: InodeNumber, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    let read = fs.read_at(inode, offset, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

fn each_file(mut check: impl FnMut(&Btrfs, &Arc<dyn BlockRead>, InodeNumber, &[u8])) {
    for names in FIXTURES {
        let images: Vec<TempImage> = names.iter().map(|name| image(name)).collect();
        let open = |image: &TempImage| -> Arc<dyn BlockRead> {
            Arc::new(diskfs_block::File::open(image.path()).unwrap())
        };
        let devices: Vec<_> = images.iter().map(open).collect();
        let fs = Btrfs::open(devices.clone(), &Options::default()).unwrap();
        for found in walk(&fs, fs.root()) {
            let found = found.unwrap();
            if found.metadata.file_type == FileType::Regular && found.metadata.size_bytes < 4 << 20
            {
                let size = index(found.metadata.size_bytes);
                let whole = read(&fs, found.inode, 0, size + 5000);
                assert_eq!(whole.len(), size);
                check(&fs, &devices[0], found.inode, &whole);
            }
        }
    }
}

#[test]
fn parts_of_files_are_the_same_as_the_whole() {
    let mut numbers = Numbers(1);
    each_file(|fs, _, inode, whole| {
        let size: u64 = whole.len().try_into().unwrap();
        for _ in 0..12 {
            let offset = numbers.below(size + 10);
            let limit = [10, 5000, 200_000][index(numbers.below(3))];
            let len = index(numbers.below(limit));
            let start = whole.len().min(index(offset));
            let end = whole.len().min(start + len);
            assert!(
                read(fs, inode, offset, len) == whole[start..end],
                "{inode}, {offset}, {len}"
            );
        }
    });
}

#[test]
fn extents_are_the_contents() {
    let mut stored = 0;
    each_file(|fs, device, inode, whole| {
        let mut at = 0;
        for extent in fs.extents_of(inode, 0).unwrap() {
            let extent = extent.unwrap();
            assert_eq!(extent.offset, at, "{inode}");
            assert!(extent.len_bytes > 0);
            let part = &whole[index(at)..index(at + extent.len_bytes)];
            match extent.kind {
                FileExtentKind::Hole => assert!(part.iter().all(|byte| *byte == 0), "{inode}"),
                FileExtentKind::Inline => {}
                FileExtentKind::Stored { device_offset } => {
                    let mut bytes = vec![0; part.len()];
                    device.read_at(device_offset, &mut bytes).unwrap();
                    assert!(bytes == part, "{inode}");
                    stored += 1;
                }
            }
            at += extent.len_bytes;
        }
        assert_eq!(index(at), whole.len());
        if at > 10 {
            let rest = fs.extents_of(inode, 7).unwrap().next().unwrap().unwrap();
            assert_eq!(rest.offset, 7);
        }
    });
    assert!(stored > 10, "{stored}");
}

#[test]
fn a_listing_continues_at_each_cookie() {
    let image = image("btrfs-directories");
    let device = Arc::new(diskfs_block::File::open(image.path()).unwrap());
    let fs = Btrfs::open(vec![device], &Options::default()).unwrap();
    for found in walk(&fs, fs.root()) {
        let found = found.unwrap();
        if !found.metadata.is_dir() {
            continue;
        }
        let list = |cookie| {
            let entries = fs.read_dir(found.inode, cookie).unwrap();
            entries.map(Result::unwrap).collect::<Vec<_>>()
        };
        let all = list(0);
        assert_eq!((&*all[0].name, &*all[1].name), (&b"."[..], &b".."[..]));
        for (nth, entry) in all.iter().enumerate().step_by(all.len() / 50 + 1) {
            assert_eq!(list(entry.cookie), all[nth + 1..]);
            assert_eq!(fs.lookup(found.inode, &entry.name).unwrap(), entry.inode);
        }
    }
}

/// A device that notes where contents are read, and fails to read them at some places.
#[derive(Debug)]
struct Watched {
    device: Arc<dyn BlockRead>,
    reads: Mutex<Vec<u64>>,
    failing: Vec<u64>,
}

impl BlockRead for Watched {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        self.reads.lock().unwrap().push(offset);
        if let Some(nth) = self.failing.iter().position(|place| *place == offset) {
            // The last one fails at once, those before it later.
            let ms = 5 * (self.failing.len() - nth - 1);
            std::thread::sleep(Duration::from_millis(ms.try_into().unwrap()));
            return Err(
                diskfs_block::Error::new(diskfs_block::ErrorKind::Io, "planted").at(offset),
            );
        }
        self.device.read_at(offset, buf)
    }
}

fn watched(device: &Arc<dyn BlockRead>, failing: Vec<u64>) -> (Arc<Watched>, Btrfs) {
    let watched = Arc::new(Watched {
        device: Arc::clone(device),
        reads: Mutex::default(),
        failing,
    });
    let fs = Btrfs::open(vec![watched.clone()], &Options::default()).unwrap();
    (watched, fs)
}

#[test]
fn the_first_extent_that_cannot_be_read_is_reported() {
    let mut tried = 0;
    each_file(|fs, device, inode, whole| {
        let extents = fs.extents_of(inode, 0).unwrap();
        let extents: Vec<_> = extents.map(Result::unwrap).collect();
        let is_compressed = |extent: &FileExtent| extent.kind == FileExtentKind::Inline;
        if extents.len() < 4 || whole.len() < 256 << 10 || !extents.iter().all(is_compressed) {
            return;
        }
        // The places of the extents: the second time, the metadata is cached.
        let (watched_device, fs) = watched(device, Vec::new());
        let mut places = Vec::new();
        for extent in &extents {
            for _ in 0..2 {
                watched_device.reads.lock().unwrap().clear();
                read(&fs, inode, extent.offset, index(extent.len_bytes));
            }
            places.extend(watched_device.reads.lock().unwrap().iter());
        }
        if places.len() != extents.len() {
            return; // some are parts of extents, which are cached
        }
        for first in 0..extents.len() - 1 {
            let (_, fs) = watched(device, places[first..].to_vec());
            let mut bytes = vec![0; whole.len()];
            let error = fs.read_at(inode, 0, &mut bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(error.offset(), Some(places[first]), "extent {first}");
            let before = index(extents[first].offset);
            assert!(bytes[..before] == whole[..before], "extent {first}");
            tried += 1;
        }
    });
    assert!(tried >= 3, "{tried}");
}

#[test]
fn missing_devices_are_named() {
    for names in [
        &["btrfs-raid0-a", "btrfs-raid0-b"][..],
        &["btrfs-raid1-a", "btrfs-raid1-b"],
        &["btrfs-raid5-a", "btrfs-raid5-b", "btrfs-raid5-c"],
        &["btrfs-sprout-a", "btrfs-sprout-b"],
    ] {
        let images: Vec<TempImage> = names.iter().map(|name| image(name)).collect();
        let open = |image: &TempImage| -> Arc<dyn BlockRead> {
            Arc::new(diskfs_block::File::open(image.path()).unwrap())
        };
        let devices: Vec<_> = images.iter().map(open).collect();
        assert_eq!(missing_devices(devices.clone()).unwrap(), [], "{names:?}");
        for (nth, device) in devices.iter().enumerate() {
            let info = device_info(&**device).unwrap().unwrap();
            let mut others = devices.clone();
            others.remove(nth);
            // A seed is complete without what has grown from it.
            let is_seed = |it: &Arc<dyn BlockRead>| device_info(&**it).unwrap().unwrap().is_seed;
            if others.iter().all(is_seed) {
                assert_eq!(missing_devices(others).unwrap(), []);
                continue;
            }
            let expected = MissingDevice {
                device_id: info.device_id,
                device_uuid: info.device_uuid,
            };
            let missing = missing_devices(others).unwrap();
            assert!(missing.contains(&expected), "{names:?}: {missing:?}");
        }
    }
}
