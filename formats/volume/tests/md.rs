//! RAID of md: arrays that Linux made, and the problems of broken ones.

use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, ErrorKind, Memory, Slice};
use diskfs_fixtures::{image, kernel_sums, pattern, sha256_hex};
use diskfs_volume::md::{Array, Member, arrays};
use diskfs_volume::read_table;
use proptest::prelude::*;

/// Returns the partitions of `md.raw`, each as bytes.
fn partitions() -> Vec<Vec<u8>> {
    partitions_of("md.raw")
}

fn partitions_of(name: &str) -> Vec<Vec<u8>> {
    let image = image(name);
    let disk: Arc<dyn BlockRead> = Arc::new(Memory::new(std::fs::read(image.path()).unwrap()));
    let table = read_table(&*disk).unwrap().unwrap();
    let open = |partition: &diskfs_volume::Partition| {
        let slice: Slice = partition.open(Arc::clone(&disk)).unwrap();
        let mut bytes = vec![0; usize::try_from(slice.size_bytes()).unwrap()];
        slice.read_at(0, &mut bytes).unwrap();
        bytes
    };
    table.partitions.iter().map(open).collect()
}

/// Returns the partitions, which are read once.
fn all_partitions() -> &'static Vec<Vec<u8>> {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(partitions)
}

/// Devices that are members, and their arrays.
struct Machine {
    disks: Vec<Arc<Memory>>,
    arrays: Vec<Array>,
}

impl Machine {
    fn new(disks: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::of(disks.into_iter().map(|bytes| Arc::new(Memory::new(bytes))))
    }

    /// Returns the disks that are members of an array.
    fn members(&self) -> Vec<Arc<Memory>> {
        self.disks.clone()
    }

    fn of(disks: impl IntoIterator<Item = Arc<Memory>>) -> Self {
        let read = |disk: Arc<Memory>| Some((Member::read(&*disk).unwrap()?, disk));
        let (members, disks): (Vec<Member>, Vec<_>) = disks.into_iter().filter_map(read).unzip();
        Self {
            disks,
            arrays: arrays(&members),
        }
    }

    /// Returns the array of that name without its host.
    fn array(&self, name: &str) -> Option<&Array> {
        let is = |array: &&Array| array.name.rsplit(':').next() == Some(name);
        self.arrays.iter().find(is)
    }

    /// Checks the contents of an array, or returns why it cannot be opened.
    fn check(&self, name: &str) -> Result<(), ErrorKind> {
        let array = self.array(name).expect(name);
        let opened = array.open(&|index| Ok(Arc::clone(&self.disks[index])));
        let opened = opened.map_err(|error| error.kind())?;
        assert_eq!(opened.size_bytes(), array.size_bytes);
        let mut found = vec![0; 384 << 10];
        opened.read_at(0, &mut found).unwrap();
        assert!(found == pattern(name, 384 << 10), "{name}");
        Ok(())
    }
}

const LEVELS: [(&str, usize, usize); 8] = [
    ("raid1", 2, 1),
    ("raid1-end", 2, 1),
    ("raid0", 3, 0),
    ("raid10", 4, 1),
    ("raid4", 3, 1),
    ("raid5", 4, 1),
    ("raid5-ra", 3, 1),
    ("raid6", 5, 2),
];

#[test]
fn every_level_is_read_also_degraded() {
    let disks = all_partitions();
    let machine = Machine::new(disks.clone());
    assert_eq!(machine.arrays.len(), LEVELS.len());
    let mut first = 0;
    for (name, members, spare) in LEVELS {
        let array = machine.array(name).expect(name);
        assert_eq!(array.members, members, "{name}");
        assert_eq!(array.level, name.split('-').next().unwrap());
        assert_eq!(machine.check(name), Ok(()), "{name}");
        for a in first..first + members {
            for b in first..=a {
                let there = (first..first + members).filter(|n| ![a, b].contains(n));
                let some = Machine::new(there.map(|n| disks[n].clone()));
                let lost = if a == b { 1 } else { 2 };
                if lost <= spare {
                    assert_eq!(some.check(name), Ok(()), "{name} {a} {b}");
                } else if lost < members && name != "raid10" {
                    assert_eq!(some.check(name), Err(ErrorKind::NotFound), "{name} {a} {b}");
                }
            }
        }
        first += members;
    }
}

/// Corrects the checksum of the superblock at 4 KiB.
fn seal(disk: &mut [u8]) {
    let superblock = &mut disk[4096..];
    let roles = u32::from_le_bytes(superblock[220..224].try_into().unwrap()) as usize;
    superblock[216..220].fill(0);
    let words = superblock[..256 + 2 * roles].chunks(4);
    let sum: u64 = words
        .map(|word| {
            let mut padded = [0; 4];
            padded[..word.len()].copy_from_slice(word);
            u64::from(u32::from_le_bytes(padded))
        })
        .sum();
    // The kernel keeps only the lower half, because the carry may overflow.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    superblock[216..220].copy_from_slice(&sum.to_le_bytes()[..4]);
}

/// Returns the two members of `raid1`, with a byte range of the second one's superblock replaced.
fn raid1_with(at: usize, bytes: &[u8]) -> Machine {
    let mut disks = all_partitions().clone();
    disks.truncate(2);
    disks[1][4096 + at..][..bytes.len()].copy_from_slice(bytes);
    seal(&mut disks[1]);
    Machine::new(disks)
}

#[test]
fn what_is_out_of_date_does_not_count() {
    let slots = |machine: &Machine| machine.array("raid1").unwrap().slots.clone();
    assert_eq!(slots(&raid1_with(0, &[])), [Some(0), Some(1)]);
    // An old event count, and a member that is not yet filled.
    let old = raid1_with(200, &0_u64.to_le_bytes());
    assert_eq!(slots(&old), [Some(0), None]);
    assert_eq!(old.check("raid1"), Ok(()));
    let mut filling = all_partitions().clone();
    filling.truncate(2);
    filling[1][4096 + 8] |= 2;
    filling[1][4096 + 152..][..8].copy_from_slice(&0_u64.to_le_bytes());
    seal(&mut filling[1]);
    assert_eq!(slots(&Machine::new(filling)), [Some(0), None]);
    // A device number whose role is spare.
    assert_eq!(
        slots(&raid1_with(160, &9_u32.to_le_bytes())),
        [Some(0), None]
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let first = raid1_with(160, &0_u32.to_le_bytes());
    assert_eq!(first.check("raid1"), Err(ErrorKind::Corrupt));
    let mut disks = all_partitions().clone();
    disks.truncate(1);
    let with = |at: usize, bytes: &[u8], sealed: bool| {
        let mut disk = disks[0].clone();
        disk[4096 + at..][..bytes.len()].copy_from_slice(bytes);
        if sealed {
            seal(&mut disk);
        }
        Machine::new([disk])
    };
    assert!(with(40, &[1], false).arrays.is_empty(), "the checksum");
    assert!(with(144, &[9], true).arrays.is_empty(), "another place");
    let problem = |machine: Machine| machine.check("raid1").unwrap_err();
    assert_eq!(problem(with(8, &[4], true)), ErrorKind::Unsupported); // being reshaped
    assert_eq!(problem(with(72, &[77], true)), ErrorKind::Unsupported); // the level
    assert_eq!(problem(with(92, &[0; 4], true)), ErrorKind::Corrupt); // members
    assert_eq!(problem(with(92, &[0xff; 4], true)), ErrorKind::Corrupt);
    assert_eq!(problem(with(128, &[0xff; 6], true)), ErrorKind::OutOfBounds); // data offset
    assert_eq!(problem(with(80, &[0; 8], true)), ErrorKind::Corrupt); // size
}

/// Arrays in rare layouts, and with the old superblock, compared with what the kernel read, which
/// the second partition contains. Also without any one member, if the level allows it.
#[test]
fn seldom_layouts_are_what_the_kernel_read() {
    let mut disks = partitions_of("md-more.raw");
    let sums = kernel_sums(&disks.remove(1));
    assert_eq!(sums.len(), 18);
    let machine = Machine::new(disks.clone());
    assert_eq!(machine.arrays.len(), sums.len());
    // The old superblock has no names, only the numbers that the arrays had.
    let old = [("raid1-old", "0"), ("raid5-old", "1"), ("linear-old", "2")];
    for (name, sum) in &sums {
        let called = old.iter().find(|(old, _)| old == name);
        let array = called.map_or(&**name, |(_, number)| *number);
        let read = |machine: &Machine| {
            let array = machine.array(array).expect(name);
            let opened = array.open(&|index| Ok(Arc::clone(&machine.disks[index])));
            let opened = opened.map_err(|error| error.kind())?;
            let mut bytes = vec![0; usize::try_from(opened.size_bytes()).unwrap()];
            opened.read_at(0, &mut bytes).unwrap();
            Ok(sha256_hex(&bytes))
        };
        assert_eq!(read(&machine), Ok(sum.clone()), "{name}");
        let slots = machine.array(array).unwrap().slots.clone();
        for slot in slots.into_iter().flatten() {
            let mut some = machine.members();
            some.remove(slot);
            let expected = if name.starts_with("raid0") || name.starts_with("linear") {
                Err(ErrorKind::NotFound)
            } else {
                Ok(sum.clone())
            };
            assert_eq!(read(&Machine::of(some)), expected, "{name} without {slot}");
        }
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(1 << 63),
        0_u64..5000,
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Fields of good superblocks are replaced, and their checksums corrected: reading always
    /// returns.
    #[test]
    fn any_superblock(which in 0_usize..24, fields in prop::collection::vec((0_usize..33, number()), 1..4)) {
        let mut disks = all_partitions().clone();
        let disk = &mut disks[which];
        for (field, value) in fields {
            let at = 4096 + 8 + 8 * field;
            disk[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let roles = u32::from_le_bytes(disk[4096 + 220..][..4].try_into().unwrap());
        if roles <= 1000 {
            seal(disk);
        }
        let machine = Machine::new(disks);
        for array in &machine.arrays {
            if let Ok(opened) = array.open(&|index| Ok(Arc::clone(&machine.disks[index]))) {
                for offset in [0, opened.size_bytes() / 2, opened.size_bytes() - 1] {
                    let _ = opened.read_at(offset, &mut [0]);
                    let _ = opened.extent_at(offset);
                }
            }
        }
    }
}
