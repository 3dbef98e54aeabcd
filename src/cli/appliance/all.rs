//! `diskfs appliance build` without a part: everything that the host allows.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use diskfs::vm::appliance::{Appliance, Lacking, Part};
use diskfs::{Error, ErrorKind, Result};

use super::{BuildArgs, Built, QemuArgs, UmlArgs, build_qemu, build_tools, build_uml, report};
use crate::cli::session::Session;

#[derive(Debug, Args)]
pub(super) struct AllArgs {
    #[command(flatten)]
    common: BuildArgs,
}

/// The result of one part.
enum Outcome {
    Built(Built),
    /// The part was there before.
    Kept(PathBuf),
    /// The host lacks something, or building failed.
    Left(Option<Error>),
}

/// Builds the parts that are missing, damaged, or have another agent. What the host lacks is
/// reported once, with the command that installs it.
pub(super) fn build(args: &AllArgs, session: &mut Session) -> Result<()> {
    let output = args.common.output()?;
    let appliance = Appliance::find(Some(&output));
    let mut lacking = Lacking::default();
    let mut lines = Vec::new();
    let mut parts = serde_json::Map::new();
    let mut first_error = None;
    let mut has_kernel = false;
    // Found out for all of them before the first is built, which installs its agent for all.
    let kept = Part::ALL.map(|part| (part, part.up_to_date(&appliance)));
    for (part, kept) in kept {
        let outcome = match kept {
            Some(file) => Outcome::Kept(file),
            None => build_part(part, args, &mut lacking, session),
        };
        has_kernel |= part != Part::Tools && !matches!(outcome, Outcome::Left(_));
        let value = match outcome {
            Outcome::Built(Built { text, document }) => {
                lines.push(text);
                document
            }
            Outcome::Kept(file) => {
                lines.push(format!("{}: already there", file.display()));
                json!({ "path": file.display().to_string(), "kept": true })
            }
            Outcome::Left(error) => {
                let problem = error.as_ref().map(Error::reason);
                if let Some(error) = error {
                    session.warn(&format!("cannot build {part}: {error}"));
                    first_error.get_or_insert(error);
                }
                json!({ "path": null, "problem": problem })
            }
        };
        parts.insert(part.name().to_owned(), value);
    }
    let command = lacking.command();
    if !lacking.names().is_empty() {
        lines.push(format!(
            "missing on this host: {}",
            lacking.names().join(", ")
        ));
        lines.push(next_step(command.as_deref()));
    }
    parts.insert("missing".to_owned(), json!(lacking.names()));
    parts.insert("command".to_owned(), json!(command));
    report(session, "built", &lines.join("\n"), Value::Object(parts))?;
    match first_error {
        Some(error) => Err(error),
        None if has_kernel => Ok(()),
        None => Err(Error::new(
            ErrorKind::NotFound,
            "no kernel for a microVM could be built",
        )),
    }
}

fn next_step(command: Option<&str>) -> String {
    match command {
        Some(command) => format!("run `{command}`, then `diskfs appliance build` again"),
        None => "install them, then run `diskfs appliance build` again".to_owned(),
    }
}

/// Builds a part, unless the host lacks something for it, which is added to `lacking`.
fn build_part(part: Part, args: &AllArgs, lacking: &mut Lacking, session: &mut Session) -> Outcome {
    let (needed, optional) = match part {
        Part::Tools => (Lacking::default(), Lacking::for_tools()),
        Part::Qemu => (Lacking::for_qemu(), Lacking::for_running_qemu()),
        Part::Uml => (Lacking::for_uml(), Lacking::default()),
    };
    let is_buildable = needed.names().is_empty();
    lacking.extend(needed);
    lacking.extend(optional);
    if !is_buildable {
        return Outcome::Left(None);
    }
    let built = match part {
        Part::Tools => build_tools(args.common.output.as_deref().map(Path::to_owned), session),
        Part::Qemu => build_qemu(&QemuArgs::with(args.common.clone()), session),
        Part::Uml => build_uml(&UmlArgs::with(args.common.clone()), session),
    };
    match built {
        Ok(built) => Outcome::Built(built),
        Err(error) => Outcome::Left(Some(error)),
    }
}
