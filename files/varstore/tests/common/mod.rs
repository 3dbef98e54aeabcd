//! What the tests have in common.
#![allow(dead_code, reason = "each test uses a part of it")]

use diskfs_varstore::testing::Template;
use diskfs_varstore::{DevicePath, LoadOption, Node, VariableStore};

/// What OVMF (edk2-stable202211) has written: on q35 with two disks and a disc on SATA, one on virtio-blk and an `NVMe` one.
pub(crate) fn sata() -> VariableStore {
    of_zstd(include_bytes!("../stores/sata.fd.zst"))
}

/// The same with SATA, USB, virtio-scsi, virtio-blk and a network.
pub(crate) fn mixed() -> VariableStore {
    of_zstd(include_bytes!("../stores/mixed.fd.zst"))
}

/// The same of the machine "pc": two disks and a disc on IDE, the same on virtio-scsi, two on virtio-blk.
pub(crate) fn pc() -> VariableStore {
    of_zstd(include_bytes!("../stores/pc.fd.zst"))
}

/// What OVMF left when it was ended while it reclaimed: the spare block has it all, and the queue says so.
pub(crate) fn interrupted() -> VariableStore {
    of_zstd(include_bytes!("../stores/interrupted.fd.zst"))
}

fn of_zstd(bytes: &[u8]) -> VariableStore {
    VariableStore::open(zstd::decode_all(bytes).unwrap()).unwrap()
}

pub(crate) fn template(variable_blocks: u32) -> Vec<u8> {
    Template {
        variable_blocks,
        is_authenticated: true,
    }
    .build()
}

pub(crate) fn empty(variable_blocks: u32) -> VariableStore {
    VariableStore::open(template(variable_blocks)).unwrap()
}

pub(crate) fn node(node_type: u8, subtype: u8, data: &[u8]) -> Node {
    Node {
        node_type,
        subtype,
        data: data.to_vec(),
    }
}

/// A path below the first PCI root.
pub(crate) fn path(nodes: &[Node]) -> DevicePath {
    let root = node(2, 1, &[0xd0, 0x41, 0x03, 0x0a, 0, 0, 0, 0]);
    DevicePath {
        nodes: [&[root], nodes].concat(),
    }
}

pub(crate) fn option(description: &str, nodes: &[Node]) -> LoadOption {
    LoadOption {
        attributes: 1,
        description: description.to_owned(),
        file_path_list: vec![path(nodes)],
        optional_data: Vec::new(),
    }
}
