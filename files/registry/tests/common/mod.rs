//! Helpers for the tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::Write;
use std::sync::Arc;

use diskfs_block::{BlockRead, Memory, Result};
use diskfs_registry::testing::{HiveBuilder, Leaf};
use diskfs_registry::{DataType, Hive, Key, NamedValue};

/// Returns a device with these bytes.
pub(crate) fn device(bytes: &[u8]) -> Arc<dyn BlockRead> {
    Arc::new(Memory::new(bytes))
}

pub(crate) fn open(primary: &[u8], logs: &[&[u8]]) -> Result<Hive> {
    let logs: Vec<_> = logs.iter().map(|log| device(log)).collect();
    Hive::open(device(primary), &logs)
}

/// Builds a hive with keys and values of many types, and `keys` subkeys of one key.
pub(crate) fn all_sorts(leaf: Leaf, leaf_len: usize, keys: usize) -> HiveBuilder {
    let mut builder = HiveBuilder::new();
    (builder.leaf, builder.leaf_len) = (leaf, leaf_len);
    for number in 0..keys {
        let key = format!(r"Many\Key {number}");
        builder.dword(&key, "Number", u32::try_from(number).unwrap());
    }
    builder
        .string(r"Ünïcode\Ключ", "näme", "välue €")
        .string(r"Ünïcode\Ключ", "имя", "значение")
        .class(r"Control\Lsa\JD", "1a2b3c4d")
        .string("Control", "", "the default")
        .string("Control", "quote\"back\\slash", "a\"b\\c");
    for (number, len) in (0_u32..).zip([0, 1, 3, 4, 5, 16_344, 20_000, 40_000]) {
        let data: Vec<u8> = (0..len).map(|at: u32| at.to_le_bytes()[0] ^ 0x5a).collect();
        for data_type in [number, DataType::BINARY.0, DataType::STRING.0] {
            let name = format!("{data_type} of {len}");
            builder.value("Values", &name, DataType(data_type), &data);
        }
    }
    builder
}

/// Formats a key and everything below it as `hivexregedit --export` does, but sorted.
pub(crate) fn export(key: &Key<'_>) -> Result<String> {
    let mut blocks = Vec::new();
    export_to(key, r"R\", &mut blocks)?;
    Ok(in_order(blocks))
}

fn export_to(key: &Key<'_>, path: &str, blocks: &mut Vec<String>) -> Result<()> {
    let mut block = format!("[{path}]\n");
    for value in key.values()? {
        let _ = writeln!(block, "{}", line(&value?)?);
    }
    blocks.push(block);
    for subkey in key.subkeys()? {
        let subkey = subkey?;
        let below = format!(r"{}\{}", path.trim_end_matches('\\'), subkey.name());
        export_to(&subkey, &below, blocks)?;
    }
    Ok(())
}

fn line(value: &NamedValue<'_>) -> Result<String> {
    let name = match value.name().as_str() {
        "" => String::from("@"),
        name => format!("{:?}", name.to_owned()),
    };
    let bytes = value.bytes_at_most(1 << 20)?;
    let DataType(number) = value.data_type();
    if let (DataType::DWORD, &[a, b, c, d]) = (value.data_type(), &*bytes) {
        return Ok(format!("{name}=dword:{d:02x}{c:02x}{b:02x}{a:02x}"));
    }
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name}=hex({number:x}):{}", bytes.join(",")))
}

/// Sorts another program's output in the same way.
pub(crate) fn exported(text: &str) -> String {
    let (_, text) = text.split_once("\n\n").expect("a first line");
    in_order(
        text.split("\n\n")
            .map(|block| format!("{}\n", block.trim()))
            .collect(),
    )
}

fn in_order(mut blocks: Vec<String>) -> String {
    for block in &mut blocks {
        let mut lines: Vec<&str> = block.lines().collect();
        if let Some(values) = lines.get_mut(1..) {
            values.sort_unstable();
        }
        *block = lines.join("\n");
    }
    blocks.sort();
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n")
}
