//! The step `template`: files from templates with variables.

use std::collections::BTreeMap;
use std::io::{self, Write};

use minijinja::{Environment, UndefinedBehavior};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::guest::Guest;
use super::files::{Mode, Owner, Write as WriteStep};
use diskfs_disk::guest::architecture;
use diskfs_disk::{Error, Result};

/// The limits on the execution steps of a template, and on the bytes of its text. They are larger
/// than any real configuration file needs.
const MAX_STEPS: u64 = 1_000_000;
const MAX_BYTES: usize = 16 << 20;

/// The name of the variable that holds facts about the guest.
const GUEST: &str = "guest";

/// A file whose text comes from a Jinja template: `{{ name }}`, `{% if %}`, `{% for %}`, filters.
/// An undefined variable is an error, and templates cannot include other files. In addition to
/// `vars`, the variable `guest` has the known ones of `hostname`, `id`, `version_id`,
/// `pretty_name`, `machine_id` and `architecture`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The path of the file in the guest.
    pub path: String,
    /// The template as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A local file with the template, instead of `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<std::path::PathBuf>,
    /// The variables of the template and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vars: BTreeMap<String, Value>,
    /// The mode of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The owner of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

impl Template {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let source = self.source(guest)?;
        let text = self.rendered(guest, &source)?;
        WriteStep {
            path: self.path.clone(),
            text,
            mode: self.mode,
            owner: self.owner.clone(),
            only_if_missing: false,
        }
        .apply(guest)
    }

    fn source(&self, guest: &Guest) -> Result<String> {
        match (&self.text, &self.file) {
            (Some(text), None) => Ok(text.clone()),
            (None, Some(file)) => {
                std::fs::read_to_string(file).map_err(|e| Error::from(e).in_file(file))
            }
            _ => Err(guest.invalid("expected exactly one of text and file")),
        }
    }

    fn rendered(&self, guest: &Guest, source: &str) -> Result<String> {
        let mut vars = self.vars.clone();
        if vars.contains_key(GUEST) {
            let reason = format!(
                "invalid variable name `{GUEST}`: it is reserved for facts about the guest"
            );
            return Err(guest.invalid(reason));
        }
        vars.insert(GUEST.to_owned(), facts(guest)?);
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_keep_trailing_newline(true);
        environment.set_fuel(Some(MAX_STEPS));
        let mut text = Limited(Vec::new());
        let rendered = environment
            .template_from_str(source)
            .and_then(|template| template.render_captured_to(&vars, &mut text).map(|_| ()));
        rendered.map_err(|error| {
            let place = error
                .line()
                .map_or(String::new(), |line| format!(", line {line}"));
            let known = vars.keys().cloned().collect::<Vec<_>>().join(", ");
            let reason = format!(
                "cannot render the template of {}{place}: {}",
                self.path,
                error_line(&error)
            );
            guest
                .invalid(reason)
                .with_hint(format!("available variables: {known}"))
        })?;
        // Templates and values are valid UTF-8, and so is the result.
        Ok(String::from_utf8_lossy(&text.0).into_owned())
    }
}

/// Returns the error message in one line.
fn error_line(error: &minijinja::Error) -> String {
    let kind = error.kind().to_string();
    let detail = error.detail().map(str::to_owned);
    detail.map_or(kind.clone(), |detail| format!("{kind}: {detail}"))
}

/// Returns the known facts about the guest. Unknown facts are undefined variables, so that their
/// use is an error.
fn facts(guest: &Guest) -> Result<Value> {
    let release = guest.release();
    let architecture = architecture::of(guest.stage.guest()).map(|(_, name)| name.to_owned());
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let facts = [
        ("hostname", first_line(guest, "/etc/hostname")?),
        ("id", known(&release.id)),
        ("version_id", known(&release.version_id)),
        ("pretty_name", known(&release.pretty_name)),
        ("machine_id", first_line(guest, "/etc/machine-id")?),
        ("architecture", architecture),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(name, fact)| Some((name.to_owned(), Value::String(fact?))));
    Ok(Value::Object(known.collect()))
}

fn first_line(guest: &Guest, path: &str) -> Result<Option<String>> {
    let text = guest.stage.text(path)?.unwrap_or_default();
    let mut lines = text.lines().map(str::trim);
    let is_text = |line: &&str| !line.is_empty() && !line.starts_with('#');
    Ok(lines.find(is_text).map(str::to_owned))
}

/// A buffer with a limited size.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            let reason = format!("the rendered text is too large: at most {MAX_BYTES} bytes");
            return Err(io::Error::other(reason));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, attributes, guest, text};

    const GUEST: &str = "-- /etc/hostname --\nweb1\n-- /etc/os-release --\nID=debian\nVERSION_ID=\"12\"\n-- /etc/machine-id --\n";

    fn error_line(steps: &str) -> String {
        let error = apply(&mut guest(GUEST), steps).unwrap_err();
        format!("{error} {}", error.next_step().unwrap_or_default())
    }

    #[test]
    fn variables_and_facts_are_put_in() {
        let steps = "- template:\n    path: /etc/app.conf\n    mode: 0600\n    vars: {port: 80, peers: [a, b], tls: {on: true}}\n    text: |\n      \
            name={{ guest.hostname }} on {{ guest.id }} {{ guest.version_id }}:{{ port }}\n      \
            {% for peer in peers %}peer={{ peer|upper }}\n      {% endfor %}{% if tls.on %}tls{% endif %}\n";
        let guest = after(GUEST, steps);
        let expected = "name=web1 on debian 12:80\npeer=A\npeer=B\ntls\n";
        assert_eq!(text(&guest, "/etc/app.conf"), expected);
        assert_eq!(attributes(&guest, "/etc/app.conf"), "0600 0:0");
    }

    #[test]
    fn what_is_changed_before_counts() {
        let steps = "- hostname: other\n- template: {path: /x, text: \"{{ guest.hostname }}\"}";
        assert_eq!(text(&after(GUEST, steps), "/x"), "other");
    }

    #[test]
    fn what_is_not_defined_is_reported_with_its_line() {
        let text = error_line("- template: {path: /x, vars: {a: 1}, text: \"a\\n{{ b }}\"}");
        assert!(
            text.contains("/x, line 2") && text.contains("a, guest"),
            "{text}"
        );
        // The file of the machine ID is empty, so the fact is undefined.
        assert!(
            error_line("- template: {path: /x, text: \"{{ guest.machine_id }}\"}")
                .contains("undefined")
        );
        assert!(error_line("- template: {path: /x, text: \"{% if %}\"}").contains("line 1"));
        assert!(error_line("- template: {path: /x, text: a, vars: {guest: b}}").contains("guest"));
        assert!(error_line("- template: {path: /x}").contains("exactly one"));
    }

    #[test]
    fn nothing_is_read_from_elsewhere_and_nothing_runs_on() {
        error_line("- template: {path: /x, text: \"{% include '/etc/passwd' %}\"}");
        error_line("- template: {path: /x, text: \"{% import '/etc/passwd' as x %}\"}");
        let many = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
        assert!(
            error_line(&format!("- template: {{path: /x, text: \"{many}\"}}")).contains("fuel")
        );
        let long = "{% for a in range(9999) %}{{ v }}{% endfor %}";
        let v = "x".repeat(9999);
        error_line(&format!(
            "- template: {{path: /x, vars: {{v: {v}}}, text: \"{long}\"}}"
        ));
    }
}
