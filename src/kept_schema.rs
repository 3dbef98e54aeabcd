//! JSON Schemas that are made from types, and kept beside the commands that print them.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Holds that the file at a path of this package has the schema; `DISKFS_WRITE_SCHEMA=1` writes it.
///
/// # Panics
/// When it has another one.
pub(crate) fn is_kept(path: &str, schema: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let made = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("DISKFS_WRITE_SCHEMA").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap();
    assert!(
        kept == made,
        "{path} is not what the types say: run the test with DISKFS_WRITE_SCHEMA=1, and look at what changed"
    );
}
