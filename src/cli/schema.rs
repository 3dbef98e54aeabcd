//! The command `diskfs schema`.

#[cfg(test)]
mod building;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod files;
#[cfg(test)]
mod guests;
#[cfg(test)]
mod info;
#[cfg(test)]
mod program;
#[cfg(test)]
mod qcow2;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod sizes;

use std::io::Write;

use clap::Args;
use serde_json::{Map, Value, json};

use diskfs::{Error, ErrorKind, Result};

use super::session::{Output, Session, stdout};
use super::show::json as document;

/// Print the JSON Schema of a command's --json output
///
/// Without COMMAND, lists the names that have a schema: the commands, and `error`, the JSON object
/// that every command prints on standard error. If the output of a command is a stream of lines
/// (`log`, `--fleet`), the schema is that of one line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs schema
  diskfs schema ls
  diskfs schema error")]
pub(super) struct Schema {
    /// The command, or `error`
    command: Option<String>,
}

/// The schemas, by name.
const SCHEMAS: &str = include_str!("schema/schemas.json");

/// Commands that change files, and whose output is only a report of the changes.
const CHANGING: [&str; 10] = [
    "chmod", "chown", "edit", "ln", "mkdir", "mv", "rm", "touch", "truncate", "write",
];

/// The schema of `inspect`, which the library generates.
const INSPECT: &str = include_str!("inspect/schema.json");

pub(super) fn run(args: &Schema, session: &Session) -> Result<()> {
    let schemas = schemas()?;
    let mut out = stdout()?;
    match &args.command {
        Some(name) => {
            let found = schemas.get(name).ok_or_else(|| unknown(name))?;
            serde_json::to_writer_pretty(&mut out, found).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        None if session.output() == Output::Json => {
            let names: Vec<&String> = schemas.keys().collect();
            document::write(&mut out, session.command(), json!({ "schemas": names }))?;
        }
        None => {
            for name in schemas.keys() {
                writeln!(out, "{name}")?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Returns the schema of a command, or `None` if there is no such command.
#[cfg(feature = "browse")]
pub(super) fn named(command: &str) -> Option<Value> {
    schemas().ok()?.remove(command)
}

fn schemas() -> Result<Map<String, Value>> {
    let wrong = |error| Error::new(ErrorKind::Invalid, format!("invalid schemas: {error}"));
    let mut schemas: Map<String, Value> = serde_json::from_str(SCHEMAS).map_err(wrong)?;
    let inspect = serde_json::from_str(INSPECT).map_err(wrong)?;
    schemas.insert("inspect".to_owned(), inspect);
    let changing = schemas.remove("changing").unwrap_or_default();
    for name in CHANGING {
        let mut schema = changing.clone();
        schema["title"] = format!("diskfs {name}").into();
        schemas.insert(name.to_owned(), schema);
    }
    Ok(schemas)
}

fn unknown(name: &str) -> Error {
    let name = super::show::name::message(name);
    let error = Error::new(ErrorKind::NotFound, format!("no such schema: `{name}`"));
    error.with_hint("`diskfs schema` lists the schemas")
}

#[cfg(test)]
mod tests {
    use diskfs_fixtures::kept_schema;
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;

    use super::building::{Build, Mkfs};
    use super::changes::{Changing, Cp, TarIn, XattrDocument};
    use super::checks::{Bench, Check, Compare, Map as ImageMap, Measure, Validate};
    use super::copies::{Backup, Convert, Create, Fetch, Import, Oci, Seed, Tar};
    use super::files::{Df, Diff, Du, Find, Grep, Hash, Ls, Stat, Tree};
    use super::guests::{Deploy, ErrorDocument, Log, Mount};
    use super::info::Info;
    use super::program::{Appliance, Man, Schemas, Uefi};
    use super::qcow2::{Amend, BitmapDocument, Commit, Rebase, SnapshotDocument};
    use super::serving::{Browse, Export, Hotplug, Umount, Wait};
    use super::sizes::{PartitionDocument, Resize, Sparsify};
    use super::*;

    fn schema<T: JsonSchema>() -> Value {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<T>();
        schema.to_value()
    }

    /// Returns the schema of a command that prints no document.
    fn none(what: &str) -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "description": format!("No document: standard output is {what}, even with --json; errors are JSON."),
            "not": {},
        })
    }

    /// Generates every schema except that of `inspect`.
    fn generate() -> Map<String, Value> {
        let mut all = [
            ("amend", schema::<Amend>()),
            ("appliance", schema::<Appliance>()),
            ("backup", schema::<Backup>()),
            ("bench", schema::<Bench>()),
            ("bitmap", schema::<BitmapDocument>()),
            ("browse", schema::<Browse>()),
            ("build", schema::<Build>()),
            ("cat", none("the contents of files")),
            ("changing", schema::<Changing>()),
            ("check", schema::<Check>()),
            ("commit", schema::<Commit>()),
            ("compare", schema::<Compare>()),
            ("completions", none("a script for the shell")),
            ("convert", schema::<Convert>()),
            ("cp", schema::<Cp>()),
            ("create", schema::<Create>()),
            ("demo", none("the output of the demonstrated commands")),
            ("deploy", schema::<Deploy>()),
            ("df", schema::<Df>()),
            ("diff", schema::<Diff>()),
            ("du", schema::<Du>()),
            ("error", schema::<ErrorDocument>()),
            ("export", schema::<Export>()),
            ("fetch", schema::<Fetch>()),
            ("find", schema::<Find>()),
            ("grep", schema::<Grep>()),
            ("hash", schema::<Hash>()),
            ("hotplug", schema::<Hotplug>()),
            ("import", schema::<Import>()),
            ("info", schema::<Info>()),
            ("log", schema::<Log>()),
            ("ls", schema::<Ls>()),
            ("man", schema::<Man>()),
            ("map", schema::<ImageMap>()),
            ("measure", schema::<Measure>()),
            ("mkfs", schema::<Mkfs>()),
            ("mount", schema::<Mount>()),
            ("oci", schema::<Oci>()),
            ("partition", schema::<PartitionDocument>()),
            ("rebase", schema::<Rebase>()),
            ("resize", schema::<Resize>()),
            ("run", none("the output of the program")),
            ("schema", schema::<Schemas>()),
            ("seed", schema::<Seed>()),
            ("serve", none("empty")),
            ("shell", none("the output of the commands")),
            ("snapshot", schema::<SnapshotDocument>()),
            ("sparsify", schema::<Sparsify>()),
            ("stat", schema::<Stat>()),
            ("tar", schema::<Tar>()),
            ("tar-in", schema::<TarIn>()),
            ("tree", schema::<Tree>()),
            ("uefi", schema::<Uefi>()),
            ("umount", schema::<Umount>()),
            ("validate", schema::<Validate>()),
            ("wait", schema::<Wait>()),
            ("xattr", schema::<XattrDocument>()),
        ]
        .map(|(name, schema)| (name.to_owned(), schema));
        for (name, schema) in &mut all {
            schema["title"] = format!("diskfs {name}").into();
        }
        all.into_iter().collect()
    }

    #[test]
    fn the_schemas_are_those_of_the_types() {
        kept_schema("src/cli/schema/schemas.json", &Value::Object(generate()));
    }

    #[test]
    fn every_command_has_one() {
        let schemas = schemas().unwrap();
        let definition = crate::cli::definition();
        for command in definition.get_subcommands().filter(|it| !it.is_hide_set()) {
            let name = command.get_name();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
