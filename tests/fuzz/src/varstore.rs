//! UEFI variable stores: reading and editing variables.

use std::sync::Arc;

use diskfs_block::{BlockRead, ErrorKind, read_within};
use diskfs_varstore::testing::{Template, seal};
use diskfs_varstore::{
    Attributes, BootDevice, BootPosition, DeviceKind, DeviceLocation, DevicePath, Guid, HardDrive,
    LoadOption, VariableStore,
};

use crate::Sparse;

const VENDOR: Guid = Guid::EFI_GLOBAL_VARIABLE;

/// The maximum length of an input. Longer ones are truncated.
const MAX_BYTES: u64 = 256 << 10;

/// The size of a seed: the block of variables, and the head of the next one.
const SEED_BYTES: usize = 4096 + 512;

/// Reads a store with a corrected checksum, edits it, and checks that the edits are there.
pub(crate) fn store(device: &Arc<dyn BlockRead>) {
    let len = usize::try_from(device.size_bytes().min(MAX_BYTES)).unwrap_or(0);
    let Ok(Some(mut bytes)) = read_within(&**device, 0, len) else {
        return;
    };
    seal(&mut bytes);
    if let Ok(mut store) = VariableStore::open(bytes) {
        read(&store);
        edit(&mut store);
    }
}

/// Reads the structures of a seed.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    let _ = read_within(&**device, 0, SEED_BYTES);
}

fn read(store: &VariableStore) {
    for variable in store.variables() {
        let _ = DevicePath::parse(variable.data).map(|path| path.to_string());
    }
    for entry in store.boot_entries() {
        let Ok(option) = entry.option else { continue };
        let _ = option.to_bytes();
        let _ = option.path().map(ToString::to_string);
    }
    let _ = (store.usage(), store.boot_next());
}

fn edit(store: &mut VariableStore) {
    let places = [
        (DeviceKind::Pci, DeviceLocation::Attached(0)),
        (
            DeviceKind::Pci,
            DeviceLocation::Pci {
                device: 5,
                function: 0,
            },
        ),
        (DeviceKind::Cdrom, DeviceLocation::Attached(0)),
        (DeviceKind::Ide, DeviceLocation::Unit { unit: 1, lun: 0 }),
        (DeviceKind::Sata, DeviceLocation::Unit { unit: 1, lun: 0 }),
        (DeviceKind::Scsi, DeviceLocation::Unit { unit: 1, lun: 0 }),
        (DeviceKind::ScsiCdrom, DeviceLocation::Attached(1)),
    ];
    let devices = places.map(|(kind, place)| BootDevice {
        order: 0,
        kind,
        place,
    });
    if let Ok(matched) = store.boot_order_for(&devices) {
        let _ = store.set_boot_order(&matched.order);
    }
    let _ = store.set_boot_next(Some(1));
    let _ = store.delete("Timeout", VENDOR);
    let _ = store.add_boot_entry(&file(), BootPosition::First);
    for data in [&b"e"[..], &[7; 500], b"eng"] {
        let before = store.bytes().len();
        match store.set("Lang", VENDOR, Attributes::DEFAULT, data) {
            Ok(_) => {
                let again =
                    VariableStore::open(store.bytes().to_vec()).expect("the store is valid");
                let lang = again.variable("Lang", VENDOR).expect("the variable exists");
                assert_eq!(lang.data, data);
                assert_eq!(store.bytes().len(), before);
            }
            Err(error) => assert_ne!(error.kind(), ErrorKind::Corrupt, "{error}"),
        }
    }
}

fn file() -> LoadOption {
    let partition = HardDrive {
        partition_number: 1,
        start_lba: 2048,
        size_lba: 4096,
        guid: VENDOR,
    };
    LoadOption::file("debian", &partition, r"\EFI\debian\shimx64.efi")
}

fn built(is_authenticated: bool) -> Sparse {
    let template = Template {
        variable_blocks: 1,
        is_authenticated,
    };
    let mut store = VariableStore::open(template.build()).expect("the store is valid");
    let mut set = |name: &str, data: &[u8]| {
        let edit = store.set(name, VENDOR, Attributes::DEFAULT, data);
        edit.expect("the store has space");
    };
    set("Timeout", &[5, 0]);
    set("Lang", b"fra");
    set("Lang", b"deu");
    set("Devices", &all_nodes());
    let added = store.add_boot_entry(&file(), BootPosition::Last);
    added.expect("the store has space");
    let disk = LoadOption {
        attributes: 1,
        description: "UEFI Misc Device".to_owned(),
        file_path_list: vec![path(&PCI)],
        optional_data: vec![1, 2, 3],
    };
    let added = store.add_boot_entry(&disk, BootPosition::First);
    added.expect("the store has space");
    let bytes = store.into_bytes();
    let mut sparse = Sparse::zeroes(bytes.len() as u64);
    sparse.write(0, &bytes);
    sparse
}

/// Returns a path with nodes of all types and subtypes that have a text of their own.
fn all_nodes() -> Vec<u8> {
    const DATA_BYTES: u8 = 38;
    let subtypes = [
        (1, 1..=6),
        (2, 1..=3),
        (3, 1..=0x22),
        (4, 1..=8),
        (5, 1..=1),
        (6, 1..=1),
    ];
    let nodes = subtypes.into_iter().flat_map(|(node_type, subtypes)| {
        subtypes.flat_map(move |subtype| {
            let header = [node_type, subtype, DATA_BYTES + 4, 0];
            header.into_iter().chain((0..DATA_BYTES).map(|n| n % 3))
        })
    });
    nodes.chain([0x7f, 0xff, 4, 0]).collect()
}

/// The path `PciRoot(0x0)/Pci(0x5,0x0)`.
const PCI: [u8; 22] = [
    2, 1, 12, 0, 0xd0, 0x41, 3, 10, 0, 0, 0, 0, 1, 1, 6, 0, 0, 5, 0x7f, 0xff, 4, 0,
];

fn path(bytes: &[u8]) -> DevicePath {
    DevicePath::parse(bytes).expect("the path is valid")
}

/// Returns a store of each format.
pub(crate) fn seeds() -> [(&'static str, Sparse); 2] {
    [("store", built(true)), ("old store", built(false))]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the target would never get past the headers.
    #[test]
    fn the_seeds_are_opened() {
        for (name, image) in seeds() {
            let bytes = read_within(&image, 0, 16 << 10).unwrap().unwrap();
            let mut store = VariableStore::open(bytes).unwrap();
            assert_eq!(store.boot_order().unwrap(), [1, 0], "{name}");
            read(&store);
            edit(&mut store);
            assert_eq!(store.boot_order().unwrap(), [2, 1, 0], "{name}");
        }
    }
}
