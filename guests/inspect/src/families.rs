//! Reports of guests of each distribution family, compared with the expected ones
//! (`tests/inspect`).

use std::fs;
use std::path::Path;

use diskfs_vfs::testing::MemoryFs;
use serde_json::Value;

use super::{Depth, Report, testing};

/// Removes empty values, so that the expected reports show only facts.
fn pruned(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(truth) => !truth,
        Value::Number(_) => false,
    };
    match value {
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, pruned(value)));
            fields.filter(|(_, value)| !is_empty(value)).collect()
        }
        Value::Array(all) => all.into_iter().map(pruned).collect(),
        value => value,
    }
}

#[test]
fn each_family_is_detected() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/inspect");
    let mut count = 0;
    for folder in fs::read_dir(&folders).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let text = fs::read_to_string(folder.join("tree.txtar")).unwrap();
        let report = Report::of(&testing::of(MemoryFs::of_txtar(&text)), Depth::Files);
        let told = pruned(serde_json::to_value(&report).unwrap());
        let path = folder.join("expected.json");
        if std::env::var_os("DISKFS_WRITE_EXPECTED").is_some() {
            let text = serde_json::to_string_pretty(&told).unwrap();
            fs::write(&path, text + "\n").unwrap();
        }
        let expected: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(told, expected, "{}", folder.display());
        count += 1;
    }
    assert!(count >= 29, "{count} families");
}
