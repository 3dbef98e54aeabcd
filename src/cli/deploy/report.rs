//! The report of a deployment, as text and as JSON.

use std::ffi::OsStr;
use std::io::Write;

use serde_json::json;

use diskfs::Result;
use diskfs::deploy::OPERATIONS;
use diskfs::document::Deployed;

use super::Deploy;
use crate::cli::session::{Output, Session, name_style, stdout};
use crate::cli::show::json as document;
use crate::cli::show::name::NameStyle;

/// The note for a plan that was not written as one transaction.
const IN_PARTS: &str = "the plan was not written as a single transaction (it needs more than one transaction of the journal, changes several filesystems, or \
     there is no journal): a crash meanwhile would have left a part of it; running the same plan again would complete it";

/// Writes one line for each step with what it changed. In a dry run, writes the diff first.
pub(super) fn write(
    out: &mut dyn Write,
    args: &Deploy,
    image: &OsStr,
    deployed: &Deployed,
) -> Result<()> {
    let style = name_style(NameStyle::Escaped);
    if args.images.len() > 1 {
        let name = style.show(image.as_encoded_bytes()).into_owned();
        out.write_all(&[&name[..], b":\n"].concat())?;
    }
    if let Some(diff) = &deployed.diff {
        out.write_all(diff)?;
    }
    for step in &deployed.steps {
        let is_shown = deployed.diff.is_none();
        if is_shown && step.changed.is_empty() && step.uuids.is_empty() {
            writeln!(out, "{}: nothing to do", step.step)?;
        } else if is_shown && step.changed.is_empty() {
            writeln!(out, "{}:", step.step)?;
        } else if is_shown {
            let paths = step.changed.iter().map(|path| style.show(path.as_bytes()));
            let paths: Vec<_> = paths.map(std::borrow::Cow::into_owned).collect();
            write!(out, "{}: ", step.step)?;
            out.write_all(&paths.join(&b", "[..]))?;
            writeln!(out)?;
        }
        for uuid in &step.uuids {
            out.write_all(b"  ")?;
            out.write_all(&style.show(uuid.of.as_bytes()))?;
            writeln!(out, ": {} -> {}", uuid.old, uuid.new)?;
        }
        for note in &step.notes {
            out.write_all(b"  note: ")?;
            out.write_all(&style.show(note.as_bytes()))?;
            writeln!(out)?;
        }
        for secret in &step.secrets {
            writeln!(out, "  secret of {}: {}", secret.of, secret.secret)?;
        }
    }
    if deployed.in_parts {
        writeln!(out, "note: {IN_PARTS}")?;
    }
    Ok(())
}

/// Prints the operations of sysprep, one per line. A star marks those of `defaults`, as in
/// virt-sysprep.
pub(super) fn list_operations(session: &Session) -> Result<()> {
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let operations = OPERATIONS.iter().map(|operation| {
            json!({
                "name": operation.name,
                "description": operation.description,
                "default": operation.is_default,
            })
        });
        let body = json!({ "operations": operations.collect::<Vec<_>>() });
        document::write(&mut out, session.command(), body)?;
        return Ok(out.flush()?);
    }
    for operation in OPERATIONS {
        let star = if operation.is_default { '*' } else { ' ' };
        writeln!(
            out,
            "{:<26}{star} {}",
            operation.name, operation.description
        )?;
    }
    Ok(out.flush()?)
}
