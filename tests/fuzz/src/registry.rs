//! Registry hives and their logs.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay, Result, Slice, read_within};
use diskfs_registry::testing::{HiveBuilder, logs};
use diskfs_registry::{Hive, Key};

use crate::Sparse;

/// The maximum size of the changes to a mutated image in memory: two sectors and an entry.
const SEALED_BYTES: u64 = 1 << 20;

/// The maximum size of an entry whose hashes are corrected.
const SEALED_ENTRY_BYTES: usize = 64 << 10;

/// The offset of the hive's log in an input. No seed's hive is longer.
const LOG_START: u64 = 32 << 10;

/// The maximum number of keys to visit.
const MAX_KEYS: usize = 500;

/// Reads a hive with corrected checksums and hashes, and everything in it. The bytes after the hive
/// are its log.
pub(crate) fn hive(device: &Arc<dyn BlockRead>) {
    let sealed = Arc::new(Overlay::in_memory(Arc::clone(device), SEALED_BYTES));
    for start in [0, LOG_START] {
        // Structures that are outside of the device cannot be sealed.
        let _ = seal(&*sealed, start);
    }
    let _ = seal_entry(&*sealed);
    let disk: Arc<dyn BlockRead> = sealed;
    let log_bytes = disk.size_bytes().saturating_sub(LOG_START);
    let log = Slice::new(Arc::clone(&disk), LOG_START, log_bytes);
    let logs: Vec<Arc<dyn BlockRead>> = log.into_iter().map(|log| Arc::new(log) as _).collect();
    let Ok(hive) = Hive::open(disk, &logs) else {
        return;
    };
    let _ = (hive.recovery(), hive.version());
    let _ = hive.last_written().to_string();
    let Ok(root) = hive.root() else {
        return;
    };
    let _ = root.subkey(r"Select\x");
    let _ = root.subkey(r"Control\Ü");
    walk(&root, &mut 0);
}

fn walk(key: &Key<'_>, keys: &mut usize) {
    *keys += 1;
    let _ = (key.name(), key.class_name(), key.security_descriptor());
    let _ = (key.value_count(), key.last_written().unix_seconds());
    for name in ["имя", "Current", "no such value"] {
        let _ = key.value(name);
    }
    for value in key.values().into_iter().flatten().flatten().take(50) {
        let _ = (value.name(), value.data_type().to_string());
        let Ok(value) = value.value() else { continue };
        let _ = (
            value.number(),
            value.clone().into_text(),
            value.into_texts(),
        );
    }
    for subkey in key.subkeys().into_iter().flatten().flatten() {
        if *keys > MAX_KEYS {
            return;
        }
        walk(&subkey, keys);
    }
}

/// Corrects the checksum of a base block.
fn seal(device: &dyn BlockWrite, start: u64) -> Result<()> {
    let Some(mut sector) = read_within(device, start, 512)? else {
        return Ok(());
    };
    let number = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes"));
    let (primary, secondary) = (number(4), number(8));
    logs::set_sequence_numbers(&mut sector, primary, secondary);
    device.write_at(start, &sector)
}

/// Corrects the hashes of the first entry.
fn seal_entry(device: &dyn BlockWrite) -> Result<()> {
    let start = LOG_START + 512;
    let header = read_within(device, start, 8)?.unwrap_or_default();
    let Some(&[b'H', b'v', b'L', b'E', a, b, c, d]) = header.first_chunk::<8>() else {
        return Ok(());
    };
    let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if !(40..=SEALED_ENTRY_BYTES).contains(&len) {
        return Ok(());
    }
    let Some(mut entry) = read_within(device, start, len)? else {
        return Ok(());
    };
    logs::seal_entry(&mut entry);
    device.write_at(start, &entry)
}

fn builder() -> HiveBuilder {
    let mut builder = HiveBuilder::new();
    builder.leaf_len = 3;
    builder
        .dword("Select", "Current", 1)
        .string(r"Control\Ключ", "имя", "text")
        .class(r"Control\Lsa", "class")
        .value(
            "Control",
            "big",
            diskfs_registry::DataType(3),
            &vec![1; 17_000],
        );
    // All types of values, and an unknown one.
    for number in 0..13 {
        let name = format!("type {number}");
        let data = b"a\0\0\0b\0\0\0\0\0".get(..if number == 11 { 8 } else { 10 });
        let data = data.unwrap_or_default();
        builder.value("Types", &name, diskfs_registry::DataType(number), data);
    }
    builder.value("Types", "big-endian", diskfs_registry::DataType(5), &[1; 4]);
    for number in 0..7 {
        builder.key(&format!(r"Select\{number}"));
    }
    builder
}

/// Returns a hive without a log, and one with a log of each format.
pub(crate) fn seeds() -> [(&'static str, Sparse); 3] {
    let before = builder().build();
    let after = builder().dword("Select", "Current", 2).key("New").build();
    let mut dirty = before.clone();
    logs::set_sequence_numbers(&mut dirty, 2, 1);
    let of = |hive: &[u8], log: &[u8]| {
        let mut sparse = Sparse::zeroes(LOG_START + log.len() as u64);
        sparse.write(0, hive);
        sparse.write(LOG_START, log);
        sparse
    };
    [
        ("hive", of(&before, b"")),
        ("hive, old log", of(&dirty, &logs::old(&before, &after))),
        (
            "hive, new log",
            of(&dirty, &logs::new(1, &[&before, &after])),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use diskfs_registry::Recovery;

    use super::*;

    /// Otherwise the target would never get past the hashes.
    #[test]
    fn the_seeds_are_recovered() {
        for (name, image) in seeds().into_iter().skip(1) {
            let disk: Arc<dyn BlockRead> = Arc::new(image);
            let log = Slice::new(Arc::clone(&disk), LOG_START, disk.size_bytes() - LOG_START);
            let hive = Hive::open(disk, &[Arc::new(log.unwrap())]).unwrap();
            assert_eq!(hive.recovery(), Recovery::Applied { entries: 1 }, "{name}");
            assert!(hive.root().unwrap().subkey("New").unwrap().is_some());
        }
    }
}
