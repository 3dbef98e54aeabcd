//! The layout of an image, for reports.

use serde::Serialize;

use crate::prepared::Prepared;
use crate::slot::{Contents, Slot};

/// The layout of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// The size of the disk in bytes.
    pub size_bytes: u64,
    /// The partitions and volumes, each before those in it.
    pub volumes: Vec<LayoutRow>,
    /// The boot loader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<String>,
}

/// A partition or a volume of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayoutRow {
    /// The name of the volume: `p1`, `vg0/root`, `p2/luks`.
    pub volume: String,
    /// The number of volumes that contain this one.
    pub depth: usize,
    /// The offset on the disk, for a partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_bytes: Option<u64>,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The type of the contents: `ext4`, `swap`, `LUKS2`, `LVM`; empty for none.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The label of the contents, or the name of the volume group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The UUID of the contents.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// The mount point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// The size of the contents of all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_bytes: Option<u64>,
}

impl Prepared {
    /// Returns the layout of the image.
    pub fn layout(&self) -> Layout {
        let mut volumes = Vec::new();
        for (slot, start) in self.slots.iter().zip(&self.disk.starts) {
            self.add_rows(slot, Some(*start), 0, &mut volumes);
        }
        Layout {
            size_bytes: self.disk.disk_bytes,
            volumes,
            bootloader: self.boot.as_ref().map(|boot| {
                let architecture = boot.architecture().efi;
                format!("{} ({architecture})", boot.name())
            }),
        }
    }

    fn add_rows(&self, slot: &Slot, start: Option<u64>, depth: usize, rows: &mut Vec<LayoutRow>) {
        let mut row = LayoutRow {
            volume: slot.volume.clone(),
            depth,
            start_bytes: start,
            size_bytes: slot.bytes,
            kind: "",
            label: String::new(),
            uuid: String::new(),
            mount: None,
            content_bytes: None,
        };
        match &slot.contents {
            Contents::Empty => rows.push(row),
            Contents::Filesystem(filesystem) => {
                row.kind = filesystem.plan.kind.name();
                row.label.clone_from(&filesystem.plan.label);
                row.uuid = filesystem.uuid_text();
                row.mount = filesystem.mount.as_ref().map(|path| format!("/{path}"));
                let usage = filesystem.mount.as_ref();
                let usage = usage.and_then(|path| self.mounts.iter().find(|m| m.path == *path));
                row.content_bytes = usage.map(|usage| usage.content_bytes);
                rows.push(row);
            }
            Contents::Luks(luks) => {
                row.kind = "LUKS2";
                row.label.clone_from(&luks.plan.label);
                row.uuid = luks.uuid.to_string();
                rows.push(row);
                self.add_rows(&luks.inner, None, depth + 1, rows);
            }
            Contents::Lvm(lvm) => {
                row.kind = "LVM";
                row.label.clone_from(&lvm.group);
                row.uuid = lvm.physical_id.to_string();
                rows.push(row);
                for (_, _, slot) in &lvm.volumes {
                    self.add_rows(slot, None, depth + 1, rows);
                }
            }
        }
    }
}
