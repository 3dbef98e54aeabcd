//! Helpers for the tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use diskfs_varstore::testing::Template;
use diskfs_varstore::{DevicePath, LoadOption, Node, VariableStore};

/// Returns a store that OVMF (edk2-stable202211) wrote on the machine q35, with two disks and a
/// disc on SATA, a disk on virtio-blk and an `NVMe` one.
pub(crate) fn sata() -> VariableStore {
    of_zstd(include_bytes!("../stores/sata.fd.zst"))
}

/// Returns a store that OVMF wrote with SATA, USB, virtio-scsi, virtio-blk and a network card.
pub(crate) fn mixed() -> VariableStore {
    of_zstd(include_bytes!("../stores/mixed.fd.zst"))
}

/// Returns a store that OVMF wrote on the machine "pc", with two disks and a disc on IDE, the same
/// on virtio-scsi, and two disks on virtio-blk.
pub(crate) fn pc() -> VariableStore {
    of_zstd(include_bytes!("../stores/pc.fd.zst"))
}

/// Returns a store whose reclaiming was interrupted: the spare block has all variables, and the
/// queue has the unfinished write.
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

/// Returns a path below the first PCI root.
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
