//! The test that keeps the JSON schema of plans up to date.

use schemars::generate::SchemaSettings;

use super::Plan;
use diskfs_fixtures::kept_schema;

#[test]
fn the_schema_is_that_of_the_types() {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let schema = settings.into_generator().into_root_schema_for::<Plan>();
    kept_schema("src/cli/build/schema.json", &schema.to_value());
}
