//! The JSON Schema of `diskfs inspect --json`: made from the types, and kept beside the command that prints it.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::Report;
use crate::guest::MountedFilesystem;

/// Where the schema is.
const PATH: &str = "src/cli/inspect/schema.json";

/// What `diskfs inspect --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs inspect", deny_unknown_fields)]
struct Document {
    /// What made the document.
    diskfs: Header,
    /// The operating systems of the image.
    systems: Vec<System>,
}

/// What made the document.
#[derive(Serialize, JsonSchema)]
struct Header {
    /// The schema's version: raised when a field changes its meaning or goes away.
    version: u32,
    /// The command.
    command: String,
}

/// An operating system.
#[derive(Serialize, JsonSchema)]
struct System {
    /// The volume with its root.
    volume: String,
    /// The filesystems that it mounts.
    filesystems: Vec<MountedFilesystem>,
    #[serde(flatten)]
    report: Report,
}

fn made() -> String {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<Document>().to_value();
    // Sources are there where they are asked for.
    let required = schema.pointer_mut("/$defs/System/required");
    if let Some(Value::Array(required)) = required {
        required.retain(|field| field != "sources");
    }
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
