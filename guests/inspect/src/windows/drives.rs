//! Drive letters and their volumes: `MountedDevices` (Microsoft, "Supporting Mount Manager
//! Requests"). A value is a disk's signature and an offset for MBR, and a partition's GUID after
//! `DMIO:ID:` for GPT.

use std::fmt::Write;

use diskfs_registry::NamedValue;
use serde::Serialize;

use super::hives::{Hives, utf16};

const LETTERS: &str = r"\DosDevices\";

/// The limit on values; the key also has values for volumes without a letter.
const MAX_VALUES: usize = 10_000;

/// The size limit of a value; the longest ones are names of devices.
const MAX_BYTES: usize = 4096;

/// A drive letter and its volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Drive {
    /// The drive letter: `C:`.
    pub letter: String,
    /// The GUID of the partition, on a disk with a GPT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The signature of the disk, eight digits, on a disk with an MBR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The start of the partition on that disk, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
    /// The name of another device: a CD drive, a floppy drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

pub(super) fn of(hives: &Hives<'_>) -> Vec<Drive> {
    let Some(system) = &hives.system else {
        return Vec::new();
    };
    let key = system.key("MountedDevices");
    let values = key.and_then(|key| system.read(key.values()));
    let values = values.into_iter().flatten().take(MAX_VALUES);
    let drive = |value: NamedValue<'_>| {
        let name = value.name();
        let letter = name.strip_prefix(LETTERS)?;
        let bytes = system.read(value.bytes_at_most(MAX_BYTES))?;
        Some(drive(letter, &bytes))
    };
    let mut drives: Vec<Drive> = values
        .filter_map(|value| drive(system.read(value)?))
        .collect();
    drives.sort();
    if !drives.is_empty() {
        system.add_source("drives");
    }
    drives
}

fn drive(letter: &str, bytes: &[u8]) -> Drive {
    let mut drive = Drive {
        letter: letter.to_owned(),
        ..Drive::default()
    };
    if let Some(id) = bytes
        .strip_prefix(b"DMIO:ID:")
        .and_then(|id| id.try_into().ok())
    {
        drive.partition = Some(guid(id));
    } else if let [a, b, c, d, offset @ ..] = bytes
        && let Ok(offset) = offset.try_into()
    {
        let signature = u32::from_le_bytes([*a, *b, *c, *d]);
        drive.disk = Some(format!("{signature:08x}"));
        drive.offset_bytes = Some(u64::from_le_bytes(offset));
    } else {
        drive.device = Some(utf16(bytes));
    }
    drive
}

/// Returns a GUID in the format of GPT, whose first three parts are little-endian.
fn guid(bytes: [u8; 16]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::new();
    for (place, from) in ORDER.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{:02x}", bytes[from]);
    }
    text
}
