//! The disks that diskfs has attached, as QEMU lists them.

use diskfs::Result;
use serde_json::{Value, json};

use super::machine;
use super::name::NODE_PREFIX;
use super::qmp::Qmp;

/// A disk of ours in QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttachedDisk {
    /// The name of the block node.
    pub(super) node: String,
    /// The ID of its device; `None` if it has none (yet, or any more).
    pub(super) device: Option<String>,
    /// The type of the device.
    pub(super) driver: Option<String>,
    pub(super) size_bytes: u64,
    pub(super) is_read_only: bool,
    /// The URI of the export, as QEMU spells it.
    pub(super) export: String,
}

impl AttachedDisk {
    /// Returns the phase, as KubeVirt names those of hotplugged volumes.
    pub(super) fn phase(&self) -> &'static str {
        match self.device {
            Some(_) => "Ready",
            None => "AttachedToNode",
        }
    }
}

/// Lists the disks.
pub(super) fn list(qmp: &mut Qmp) -> Result<Vec<AttachedDisk>> {
    let nodes = qmp.must("query-named-block-nodes", &json!({ "flat": true }))?;
    let blocks = qmp.must("query-block", &json!({}))?;
    let mut disks = Vec::new();
    for node in nodes.as_array().into_iter().flatten() {
        let name = text(node, "/node-name");
        if !name.starts_with(NODE_PREFIX) {
            continue;
        }
        let device = device_of(&blocks, &name);
        let driver = match &device {
            Some(device) => machine::kind_of(qmp, device)?,
            None => None,
        };
        disks.push(AttachedDisk {
            node: name,
            device,
            driver,
            size_bytes: node
                .pointer("/image/virtual-size")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
            is_read_only: node.get("ro").and_then(Value::as_bool).unwrap_or_default(),
            export: text(node, "/image/filename"),
        });
    }
    Ok(disks)
}

/// Returns the ID of the device that uses a node. `qdev` is an ID or a path in QEMU's object tree.
fn device_of(blocks: &Value, node: &str) -> Option<String> {
    let mut blocks = blocks.as_array().into_iter().flatten();
    let block = blocks.find(|block| text(block, "/inserted/node-name") == node)?;
    let qdev = text(block, "/qdev");
    let id = match qdev.strip_prefix("/machine/peripheral/") {
        Some(path) => path.split('/').next().unwrap_or_default(),
        None => &qdev,
    };
    (!id.is_empty()).then(|| id.to_owned())
}

fn text(value: &Value, pointer: &str) -> String {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}
