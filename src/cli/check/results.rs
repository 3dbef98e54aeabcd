//! The results of checks, as text and as JSON.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use diskfs::Result;
use diskfs::check::{CheckReport, Finding, FindingPlace};

use super::image::CheckedImage;
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;
use crate::cli::show::name::message;

/// The number of findings of one volume that are printed without --verbose.
const PRINTED_MAX: usize = 20;

/// The result of checking one volume.
pub(super) struct Checked {
    pub(super) volume: String,
    pub(super) kind: &'static str,
    pub(super) outcome: Outcome,
}

/// The outcome of a check.
pub(super) enum Outcome {
    Native(CheckReport),
    #[cfg(feature = "microvm")]
    ByProgram {
        is_clean: bool,
        command: String,
        output: String,
    },
}

impl Outcome {
    pub(super) fn is_clean(&self) -> bool {
        match self {
            Self::Native(report) => report.is_clean(),
            #[cfg(feature = "microvm")]
            Self::ByProgram { is_clean, .. } => *is_clean,
        }
    }

    /// Returns the findings as lines of text, or the output of the program.
    fn lines(&self) -> String {
        match self {
            Self::Native(report) => {
                let lines = report.findings.iter().map(|finding| line(finding) + "\n");
                lines.collect()
            }
            #[cfg(feature = "microvm")]
            Self::ByProgram { output, .. } => output.clone(),
        }
    }
}

impl Checked {
    pub(super) fn is_clean(&self) -> bool {
        self.outcome.is_clean()
    }

    /// Returns the sentence that reports the damage.
    pub(super) fn damage(&self) -> String {
        let volume = message(&self.volume);
        match &self.outcome {
            Outcome::Native(report) => {
                let first = report.findings.first().map(line).unwrap_or_default();
                let count = report.total_findings;
                format!("volume {volume} is damaged ({count} findings), first: {first}")
            }
            #[cfg(feature = "microvm")]
            Outcome::ByProgram { command, .. } => {
                format!("volume {volume} is damaged: `{command}` has found errors")
            }
        }
    }

    fn document(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("volume", self.volume.clone().into());
        put("type", self.kind.into());
        put("clean", self.is_clean().into());
        put("said", self.outcome.lines().into());
        #[cfg_attr(
            not(feature = "microvm"),
            expect(
                irrefutable_let_patterns,
                reason = "with a microVM there is another one"
            )
        )]
        if let Outcome::Native(report) = &self.outcome {
            let findings: Vec<Value> = report.findings.iter().map(finding).collect();
            put("findings", findings.into());
            put("total_findings", report.total_findings.into());
            put("notes", report.notes.clone().into());
        }
        Value::Object(fields)
    }
}

/// Returns a finding as one line: the place, the sentence and the code.
fn line(finding: &Finding) -> String {
    let place = place(&finding.place);
    let code = finding.kind.code();
    if place.is_empty() {
        return format!("{} [{code}]", finding.detail);
    }
    format!("{place}: {} [{code}]", finding.detail)
}

fn place(place: &FindingPlace) -> String {
    let text = |bytes: &[u8]| message(&String::from_utf8_lossy(bytes));
    let parts = [
        place.group.map(|group| format!("group {group}")),
        place.inode.map(|inode| format!("inode {inode}")),
        place.block.map(|block| format!("block {block}")),
        place.path.as_deref().map(text),
        place
            .name
            .as_deref()
            .map(|name| format!("name {}", text(name))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn finding(finding: &Finding) -> Value {
    let place = &finding.place;
    let mut fields = Map::new();
    fields.insert("code".to_owned(), finding.kind.code().into());
    fields.insert("detail".to_owned(), finding.detail.clone().into());
    let numbers = [
        ("group", place.group.map(u64::from)),
        ("inode", place.inode.map(u64::from)),
        ("block", place.block),
    ];
    for (name, number) in numbers {
        fields.extend(number.map(|number| (name.to_owned(), number.into())));
    }
    for (field, bytes) in [("path", &place.path), ("name", &place.name)] {
        if let Some(bytes) = bytes {
            document::put_name(&mut fields, field, bytes);
        }
    }
    Value::Object(fields)
}

pub(super) fn print_results(
    session: &Session,
    image: Option<&CheckedImage>,
    checked: &[Checked],
) -> Result<()> {
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let volumes: Vec<Value> = checked.iter().map(Checked::document).collect();
        let image = image.map(CheckedImage::document);
        let body = json!({ "image": image, "volumes": volumes });
        document::write(&mut out, session.command(), body)?;
        return Ok(out.flush()?);
    }
    if let Some(image) = image {
        writeln!(out, "image: qcow2, {}", image.verdict())?;
        let most = if session.is_verbose() {
            usize::MAX
        } else {
            PRINTED_MAX
        };
        for line in image.lines().take(most) {
            writeln!(out, "  {line}")?;
        }
    }
    for one in checked {
        let verdict = if one.is_clean() { "clean" } else { "damaged" };
        writeln!(out, "{}: {}, {verdict}", message(&one.volume), one.kind)?;
        match &one.outcome {
            Outcome::Native(report) => print_report(&mut out, report, session.is_verbose())?,
            // With `-v`, the output was shown while the program ran.
            #[cfg(feature = "microvm")]
            Outcome::ByProgram {
                is_clean, output, ..
            } if !is_clean && !session.is_verbose() => {
                for line in output.lines() {
                    writeln!(out, "  {}", message(line.trim_end()))?;
                }
            }
            #[cfg(feature = "microvm")]
            Outcome::ByProgram { .. } => {}
        }
    }
    Ok(out.flush()?)
}

fn print_report(out: &mut impl std::io::Write, report: &CheckReport, all: bool) -> Result<()> {
    let most = if all { usize::MAX } else { PRINTED_MAX };
    for finding in report.findings.iter().take(most) {
        writeln!(out, "  {}", line(finding))?;
    }
    let printed = report.findings.len().min(most) as u64;
    let rest = report.total_findings.saturating_sub(printed);
    if rest > 0 {
        writeln!(out, "  and {rest} more")?;
    }
    for note in &report.notes {
        writeln!(out, "  note: {note}")?;
    }
    Ok(())
}
