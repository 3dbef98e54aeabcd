//! The JSON Schema of `diskfs inspect --json`.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::Report;
use diskfs_disk::guest::MountedFilesystem;
use diskfs_fixtures::kept_schema;

/// The document that `diskfs inspect --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "diskfs inspect", deny_unknown_fields)]
struct Document {
    /// The header: the version of the schema, and the command.
    diskfs: Header,
    /// The operating systems of the image.
    systems: Vec<System>,
}

/// The header of a document.
#[derive(Serialize, JsonSchema)]
struct Header {
    /// The version of the schema, which is incremented when a field changes its meaning or is
    /// removed.
    version: u32,
    /// The command that printed the document.
    command: String,
}

/// An operating system.
#[derive(Serialize, JsonSchema)]
struct System {
    /// The volume of the root filesystem.
    volume: String,
    /// The filesystems that it mounts.
    filesystems: Vec<MountedFilesystem>,
    #[serde(flatten)]
    report: Report,
}

#[test]
fn the_schema_is_that_of_the_types() {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Document>();
    let mut schema = schema.to_value();
    // Sources are present only on request.
    let required = schema.pointer_mut("/$defs/System/required");
    if let Some(Value::Array(required)) = required {
        required.retain(|field| field != "sources");
    }
    kept_schema("src/cli/inspect/schema.json", &schema);
}
