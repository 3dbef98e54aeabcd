//! Tests with invalid stores: every call returns in bounded time, without a panic.

mod common;

use std::time::{Duration, Instant};

use common::{empty, option, sata, template};
use diskfs_block::ErrorKind;
use diskfs_varstore::testing::{Template, seal};
use diskfs_varstore::{
    Attributes, BootDevice, BootPosition, DeviceKind, DeviceLocation, DevicePath, Guid, HardDrive,
    LoadOption, VariableStore,
};
use proptest::prelude::*;

const VENDOR: Guid = Guid::EFI_GLOBAL_VARIABLE;

/// Makes all read calls on a store, then edits it.
fn exercise(bytes: Vec<u8>) -> diskfs_block::Result<()> {
    let mut store = VariableStore::open(bytes)?;
    for variable in store.variables() {
        let _ = DevicePath::parse(variable.data).map(|path| path.to_string());
        let found = store.variable(&variable.name, variable.vendor);
        assert!(found.is_some() || variable.name.contains('\u{fffd}'));
    }
    for entry in store.boot_entries() {
        let _ = entry
            .option
            .map(|option| format!("{:?} {:?}", option.to_bytes(), option.path()));
    }
    let _ = (store.boot_order(), store.boot_next(), store.usage());
    let device = BootDevice {
        order: 0,
        kind: DeviceKind::Pci,
        place: DeviceLocation::Attached(0),
    };
    if let Ok(matched) = store.boot_order_for(&[device]) {
        let _ = store.set_boot_order(&matched.order);
    }
    let edited = store.set("Lang", VENDOR, Attributes::DEFAULT, b"eng");
    let edited = edited.and_then(|_| store.set_boot_next(None));
    if edited.is_ok() {
        let store = VariableStore::open(store.into_bytes())?;
        let lang = store.variable("Lang", VENDOR);
        assert_eq!(lang.expect("the variable exists").data, b"eng");
    }
    Ok(())
}

fn small() -> Vec<u8> {
    let mut store = empty(1);
    let guid = VENDOR;
    let partition = HardDrive {
        partition_number: 1,
        start_lba: 1,
        size_lba: 1,
        guid,
    };
    let file = LoadOption::file("debian", &partition, r"\a.efi");
    let _ = store.add_boot_entry(&file, BootPosition::First).unwrap();
    let _ = store.add_boot_entry(
        &option("x", &[common::node(1, 1, &[1, 2])]),
        BootPosition::Last,
    );
    let _ = store
        .set("Lang", guid, Attributes::DEFAULT, b"fra")
        .unwrap();
    let _ = store
        .set("Lang", guid, Attributes::DEFAULT, b"deu")
        .unwrap();
    store.into_bytes()
}

#[test]
fn each_byte_may_be_another() {
    let store = small();
    exercise(store.clone()).unwrap();
    let end = store[..4096]
        .iter()
        .rposition(|&byte| byte != 0xff)
        .unwrap()
        + 70;
    for at in (0..end).chain(4096..4096 + 80) {
        for value in [!store[at], store[at] ^ 1, store[at] ^ 0x80, 0, 0xff] {
            for sealed in [false, true] {
                let mut other = store.clone();
                other[at] = value;
                if sealed && at < 72 {
                    seal(&mut other);
                    let _ = exercise(other);
                } else if !sealed {
                    let _ = exercise(other);
                }
            }
        }
    }
}

#[test]
fn a_file_may_end_anywhere() {
    let store = small();
    for len in 0..store.len() {
        let error = VariableStore::open(store[..len].to_vec()).unwrap_err();
        let kinds = [ErrorKind::Corrupt, ErrorKind::Unsupported];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}

#[test]
fn a_volume_may_be_followed_by_anything() {
    let mut bytes = small();
    bytes.extend([7; 5000]);
    exercise(bytes).unwrap();
}

#[test]
fn sizes_that_lie_are_reported() {
    let first = 0x64;
    for (at, value) in [
        (first + 36, 0x8000_0000_u32),
        (first + 36, 0xffff_fffe),
        (first + 36, 4096),
        (first + 40, 4096),
        (first + 40, 0xffff_fffe),
    ] {
        let mut bytes = small();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let error = VariableStore::open(bytes).unwrap_err();
        assert_eq!(
            (error.kind(), error.offset()),
            (ErrorKind::Corrupt, Some(first as u64))
        );
    }
}

#[test]
fn names_that_are_none_are_nobodys_and_are_kept() {
    let mut store = empty(1);
    let _ = store
        .set("ab", VENDOR, Attributes::DEFAULT, b"1234")
        .unwrap();
    let _ = store
        .set("Lang", VENDOR, Attributes::DEFAULT, b"eng")
        .unwrap();
    let bytes = store.into_bytes();
    let first = 0x64;
    // Names without a zero at the end, with a zero inside, with an odd number of bytes, and empty
    // ones.
    for (at, value) in [(64, 1), (62, 0), (36, 5), (36, 3), (60, 0), (36, 0)] {
        let mut other = bytes.clone();
        other[first + at] = value;
        if at == 60 {
            (other[first + 36], other[first + 40]) = (2, 8);
        } else if at == 36 {
            other[first + 40] = 10 - value;
        }
        let mut store = VariableStore::open(other.clone()).unwrap();
        let names: Vec<String> = store
            .variables()
            .into_iter()
            .map(|found| found.name)
            .collect();
        assert_eq!(names, ["Lang"]);
        while !store
            .set("Lang", VENDOR, Attributes::DEFAULT, &other[..999])
            .unwrap()
            .reclaimed
        {
            let _ = store
                .set("Lang", VENDOR, Attributes::DEFAULT, &other[..998])
                .unwrap();
        }
        let kept = store.bytes()[..0x200]
            .windows(70)
            .any(|part| *part == other[first..first + 70]);
        assert!(kept, "{at} {value}");
    }
}

/// A store that consists of headers only, of one variable, with a million records.
#[test]
fn a_million_headers() {
    let template = Template {
        variable_blocks: (32 << 20) / 4096 - 1,
        is_authenticated: false,
    };
    let mut bytes = template.build();
    let end = (32 << 20) - 4096;
    let mut header = [0; 32];
    (header[0], header[1], header[2], header[4]) = (0xaa, 0x55, 0x3f, 7);
    let began = Instant::now();
    let mut headers = 0_u32;
    for at in (0x64..end - 32).step_by(32) {
        bytes[at..at + 32].copy_from_slice(&header);
        headers += 1;
    }
    assert!(headers > 1_048_000);
    exercise(bytes.clone()).unwrap();
    for (number, at) in (0..headers).zip((0x64..).step_by(32)) {
        bytes[at + 16..at + 20].copy_from_slice(&number.to_le_bytes());
    }
    let mut store = VariableStore::open(bytes).unwrap();
    let error = store.set("Lang", VENDOR, Attributes::DEFAULT, b"eng");
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NoSpace);
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
}

/// Each number of an order counts once, whatever the length of the order.
#[test]
fn an_order_of_a_million_numbers() {
    let mut store = VariableStore::open(template(2500)).unwrap();
    for _ in 0..3 {
        let disk = option("x", &[common::node(1, 1, &[0, 1])]);
        store.add_boot_entry(&disk, BootPosition::Last).unwrap();
    }
    let numbers = (0..2_000_000_u32).map(|number| (number % 60_000) as u16);
    let order: Vec<u8> = numbers.flat_map(u16::to_le_bytes).collect();
    store
        .set("BootOrder", VENDOR, Attributes::DEFAULT, &order)
        .unwrap();
    let path = DevicePath::parse(&[1, 1, 4, 0].repeat(20_000)).unwrap_err();
    assert_eq!(path.kind(), ErrorKind::Unsupported);
    let began = Instant::now();
    let device = BootDevice {
        order: 0,
        kind: DeviceKind::Pci,
        place: DeviceLocation::Attached(0),
    };
    let matched = store.boot_order_for(&[device]).unwrap();
    assert_eq!(matched.order.len(), 60_000);
    store.set_boot_order(&matched.order).unwrap();
    let (number, _) = store
        .add_boot_entry(&option("y", &[]), BootPosition::First)
        .unwrap();
    assert_eq!(number, 3);
    assert_eq!(store.boot_order().unwrap().len(), 60_000);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn many_boot_entries_are_all_that_there_are() {
    let mut store = VariableStore::open(template(4000)).unwrap();
    let mut order = Vec::new();
    for number in 0..300_u16 {
        let (added, _) = store
            .add_boot_entry(&option("x", &[]), BootPosition::Last)
            .unwrap();
        assert_eq!(added, number);
        order.push(number);
    }
    assert_eq!(store.boot_order().unwrap(), order);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn anything_may_stand_anywhere(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..6)) {
        let mut bytes = small();
        for (at, value) in changes {
            let at = 72 + at.index(1000) * 4;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let _ = exercise(bytes);
    }

    #[test]
    fn anything_may_be_an_option(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(option) = LoadOption::parse(&bytes) {
            let _ = option.path().map(ToString::to_string);
        }
        if let Ok(path) = DevicePath::parse(&bytes) {
            let _ = path.to_string();
        }
    }

    #[test]
    fn anything_may_be_a_step(node_type in 1..6_u8, subtype in 0..0x20_u8, data in prop::collection::vec(any::<u8>(), 0..70)) {
        let path = common::path(&[common::node(node_type, subtype, &data)]);
        prop_assert!(path.to_string().starts_with("PciRoot(0x0)/"));
        let bytes = path.to_bytes().unwrap();
        prop_assert_eq!(DevicePath::parse(&bytes).unwrap(), path);
    }

    #[test]
    fn what_the_firmware_wrote_may_be_changed(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sata().into_bytes();
        for (at, value) in changes {
            bytes[0x64 + at.index(0x4200)] = value;
        }
        let _ = exercise(bytes);
    }
}
