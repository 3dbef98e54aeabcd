//! The JSON Schema of plans: made from the types, and kept beside the command that prints it.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;

use super::Plan;

/// Where the schema is.
const PATH: &str = "src/cli/deploy/schema.json";

fn made() -> String {
    let generator = SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator();
    let schema = generator.into_root_schema_for::<Plan>().to_value();
    let mut text = serde_json::to_string_pretty(&schema).unwrap();
    text.push('\n');
    text
}

#[test]
fn the_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PATH);
    let made = made();
    if std::env::var_os("DISKFS_WRITE_SCHEMA").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        kept == made,
        "{PATH} is not what the types say: run the test with DISKFS_WRITE_SCHEMA=1, and look at what changed"
    );
}
