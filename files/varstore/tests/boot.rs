//! Tests of boot entries and the boot order.

mod common;

use common::{empty, mixed, node, option, sata};
use diskfs_block::ErrorKind;
use diskfs_varstore::{
    BootDevice, BootPosition, DeviceKind, DeviceLocation, Guid, HardDrive, LoadOption, Node,
    VariableStore,
};

fn device(order: u32, kind: DeviceKind, place: DeviceLocation) -> BootDevice {
    BootDevice { order, kind, place }
}

fn attached(order: u32, kind: DeviceKind, before: usize) -> BootDevice {
    device(order, kind, DeviceLocation::Attached(before))
}

/// Returns a store with an entry for each description and path, in this order.
fn with_entries(entries: &[(&str, Vec<Node>)]) -> VariableStore {
    let mut store = empty(4);
    for (description, nodes) in entries {
        store
            .add_boot_entry(&option(description, nodes), BootPosition::Last)
            .unwrap();
    }
    store
}

fn pci(device: u8) -> Node {
    node(1, 1, &[0, device])
}

fn ata(channel: u8, drive: u8) -> Node {
    node(3, 1, &[channel, drive, 0, 0])
}

fn scsi(target: u8, lun: u8) -> Node {
    node(3, 2, &[target, 0, lun, 0])
}

/// Returns the entries of a QEMU machine of type "pc", in a shuffled order.
fn mixed_up() -> VariableStore {
    with_entries(&[
        ("UEFI QEMU QEMU HARDDISK 2", vec![pci(6), scsi(1, 0)]),
        ("UEFI QEMU DVD-ROM QM00003 ", vec![pci(1), ata(1, 0)]),
        ("UEFI QEMU HARDDISK QM00002 ", vec![pci(1), ata(0, 1)]),
        ("UEFI QEMU HARDDISK QM00001 ", vec![pci(1), ata(0, 0)]),
        ("UEFI QEMU QEMU CD-ROM ", vec![pci(6), scsi(2, 0)]),
        ("UEFI QEMU QEMU HARDDISK ", vec![pci(6), scsi(0, 3)]),
        ("UEFI Misc Device 2", vec![pci(9)]),
        ("UEFI Misc Device", vec![pci(8)]),
        (
            "UEFI PXEv4 (MAC:525400123456)",
            vec![pci(3), node(3, 0x0b, &[0; 33])],
        ),
    ])
}

#[test]
fn devices_are_found_by_their_paths() {
    let store = mixed_up();
    let matched = store
        .boot_order_for(&[
            attached(5, DeviceKind::Ide, 1),
            attached(0, DeviceKind::Pci, 1),
            attached(1, DeviceKind::Cdrom, 0),
            attached(2, DeviceKind::ScsiCdrom, 0),
            attached(3, DeviceKind::Scsi, 1),
            attached(4, DeviceKind::Ide, 0),
            attached(6, DeviceKind::Sata, 0),
            attached(7, DeviceKind::Pci, 2),
        ])
        .unwrap();
    assert_eq!(matched.order, [6, 1, 4, 0, 3, 2, 5, 7, 8]);
    assert_eq!(
        matched.missing,
        [
            attached(6, DeviceKind::Sata, 0),
            attached(7, DeviceKind::Pci, 2)
        ]
    );
}

#[test]
fn devices_are_found_by_their_addresses() {
    let store = mixed_up();
    let at = |device| DeviceLocation::Pci {
        device,
        function: 0,
    };
    let unit = |unit, lun| DeviceLocation::Unit { unit, lun };
    let found = |kind, place| {
        let matched = store.boot_order_for(&[device(0, kind, place)]).unwrap();
        matched.missing.is_empty().then(|| matched.order[0])
    };
    assert_eq!(found(DeviceKind::Pci, at(9)), Some(6));
    assert_eq!(found(DeviceKind::Pci, at(10)), None);
    assert_eq!(found(DeviceKind::Pci, at(6)), None);
    assert_eq!(found(DeviceKind::ScsiCdrom, at(6)), Some(4));
    assert_eq!(found(DeviceKind::Scsi, unit(0, 3)), Some(5));
    assert_eq!(found(DeviceKind::Scsi, unit(0, 0)), None);
    assert_eq!(found(DeviceKind::Ide, unit(1, 0)), Some(2));
    assert_eq!(found(DeviceKind::Cdrom, unit(2, 0)), Some(1));
}

#[test]
fn what_the_firmware_made_is_matched() {
    let mut store = mixed();
    let matched = store
        .boot_order_for(&[
            attached(0, DeviceKind::Scsi, 0),
            attached(1, DeviceKind::Sata, 0),
            attached(1, DeviceKind::Pci, 0),
            attached(2, DeviceKind::Cdrom, 0),
        ])
        .unwrap();
    assert!(matched.missing.is_empty());
    assert_eq!(matched.order, [4, 5, 3, 1, 0, 2, 6, 7, 8, 9, 10, 11]);
    store.set_boot_order(&matched.order).unwrap();
    assert_eq!(store.boot_order().unwrap(), matched.order);
    let second = device(
        0,
        DeviceKind::Sata,
        DeviceLocation::Unit { unit: 1, lun: 0 },
    );
    let matched = sata().boot_order_for(&[second]).unwrap();
    assert_eq!(matched.order, [5, 0, 1, 2, 3, 4, 6]);
}

/// All kinds of devices are matched, with the names that OVMF gives.
#[test]
fn all_kinds_are_matched() {
    let mut store = common::pc();
    let devices = [
        attached(0, DeviceKind::Pci, 1),
        attached(1, DeviceKind::Scsi, 0),
        attached(2, DeviceKind::Ide, 1),
        attached(3, DeviceKind::ScsiCdrom, 0),
        attached(4, DeviceKind::Cdrom, 0),
        attached(5, DeviceKind::Ide, 0),
        attached(6, DeviceKind::Pci, 0),
        attached(7, DeviceKind::Sata, 0),
    ];
    let matched = store.boot_order_for(&devices).unwrap();
    assert_eq!(matched.order, [7, 5, 4, 2, 1, 3, 6, 0, 8]);
    assert_eq!(matched.missing, devices[7..]);
    // The current order has no influence.
    store.set_boot_order(&[8, 7, 6, 5, 4, 3, 2, 1, 0]).unwrap();
    let again = store.boot_order_for(&devices).unwrap();
    assert_eq!(again.order, [7, 5, 4, 2, 1, 3, 6, 8, 0]);
}

#[test]
fn one_device_twice_counts_once() {
    let store = mixed_up();
    let twice = [
        attached(1, DeviceKind::Pci, 0),
        attached(0, DeviceKind::Pci, 0),
    ];
    let matched = store.boot_order_for(&twice).unwrap();
    assert_eq!(matched.order, [7, 0, 1, 2, 3, 4, 5, 6, 8]);
    assert!(matched.missing.is_empty());
    // Two entries with the same path are one device.
    let store = with_entries(&[
        ("UEFI Misc Device", vec![pci(8)]),
        ("renamed", vec![pci(8)]),
        ("UEFI Misc Device 2", vec![pci(9)]),
    ]);
    let matched = store
        .boot_order_for(&[attached(0, DeviceKind::Pci, 1)])
        .unwrap();
    assert_eq!(matched.order, [2, 0, 1]);
}

#[test]
fn an_entry_is_made_for_a_file() {
    let mut store = sata();
    let partition = HardDrive {
        partition_number: 1,
        start_lba: 2048,
        size_lba: 262_144,
        guid: Guid::EFI_GLOBAL_VARIABLE,
    };
    let debian = LoadOption::file("debian", &partition, r"\EFI\debian\shimx64.efi");
    let (number, edit) = store.add_boot_entry(&debian, BootPosition::First).unwrap();
    assert_eq!((number, edit.reclaimed), (7, false));
    assert_eq!(store.boot_order().unwrap(), [7, 0, 1, 2, 3, 4, 5, 6]);
    store.delete("Boot0003", Guid::EFI_GLOBAL_VARIABLE).unwrap();
    // The order still contains the number that is now free.
    let (number, _) = store.add_boot_entry(&debian, BootPosition::Last).unwrap();
    assert_eq!(number, 3);
    assert_eq!(store.boot_order().unwrap(), [7, 0, 1, 2, 4, 5, 6, 3]);
    let store = VariableStore::open(store.into_bytes()).unwrap();
    let entries = store.boot_entries();
    assert_eq!(entries[3].option.as_ref().unwrap(), &debian);
    assert_eq!(entries.len(), 8);
}

#[test]
fn an_entry_without_room_changes_nothing() {
    let mut store = empty(1);
    for name in ["first", "second"] {
        store
            .add_boot_entry(&option(name, &[pci(1)]), BootPosition::Last)
            .unwrap();
    }
    let before = store.bytes().to_vec();
    // The entry fits to the last byte; the order, with one more number, does not.
    let usage = store.usage();
    let free = usage.free_bytes + usage.deleted_bytes;
    let mut large = option("large", &[pci(2)]);
    large.optional_data = vec![0; free - 60 - 18 - large.to_bytes().unwrap().len()];
    let error = store
        .add_boot_entry(&large, BootPosition::First)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(store.bytes(), before);
    assert_eq!(store.boot_order().unwrap(), [0, 1]);
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let mut store = sata();
    for order in [&[][..], &[1, 1], &[1, 99]] {
        let error = store.set_boot_order(order).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{order:?}");
    }
    assert_eq!(
        store.set_boot_next(Some(99)).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    store.set_boot_next(Some(4)).unwrap();
    assert_eq!(store.boot_next().unwrap(), Some(4));
    store.set_boot_next(None).unwrap();
    store.set_boot_next(None).unwrap();
    assert_eq!(store.boot_next().unwrap(), None);
}
