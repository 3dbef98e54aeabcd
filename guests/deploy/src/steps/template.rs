//! Texts with variables.

use std::collections::BTreeMap;
use std::io::{self, Write};

use minijinja::{Environment, UndefinedBehavior};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::guest::Guest;
use super::files::{Mode, Owner, Write as WriteStep};
use diskfs_disk::guest::architecture;
use diskfs_disk::{Error, Result};

/// What working out a template may take of steps, and its text of bytes: more than any file of settings has.
const MAX_STEPS: u64 = 1_000_000;
const MAX_BYTES: usize = 16 << 20;

/// The variable that the guest's own facts are below.
const GUEST: &str = "guest";

/// A file with a text that is worked out from a template in the language of Jinja: `{{ name }}`, `{% if %}`,
/// `{% for %}`, filters. What is not defined is an error, and nothing is included from elsewhere. Besides `vars` there
/// is `guest`: `hostname`, `id`, `version_id`, `pretty_name`, `machine_id` and `architecture`, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Where the file is.
    pub path: String,
    /// The template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The template as a file of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<std::path::PathBuf>,
    /// What is put into it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vars: BTreeMap<String, Value>,
    /// The file's mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Its owner.
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
            _ => Err(guest.invalid("a template is either a text or a file")),
        }
    }

    fn rendered(&self, guest: &Guest, source: &str) -> Result<String> {
        let mut vars = self.vars.clone();
        if vars.contains_key(GUEST) {
            let reason =
                format!("`{GUEST}` is what is known of the guest: call the variable another name");
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
            let reason = format!("the template of {}{place}: {}", self.path, told(&error));
            guest
                .invalid(reason)
                .with_hint(format!("its variables are {known}"))
        })?;
        // Templates and values are text, and so is what they come to.
        Ok(String::from_utf8_lossy(&text.0).into_owned())
    }
}

/// What is wrong, in one line.
fn told(error: &minijinja::Error) -> String {
    let kind = error.kind().to_string();
    let detail = error.detail().map(str::to_owned);
    detail.map_or(kind.clone(), |detail| format!("{kind}: {detail}"))
}

/// What is known of the guest. What is not is not defined, and so an error where it is used.
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

/// What has so much room and no more.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            let reason = format!("its text has more than {MAX_BYTES} bytes");
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

    fn told(steps: &str) -> String {
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
    fn what_is_not_defined_is_told_with_its_line() {
        let text = told("- template: {path: /x, vars: {a: 1}, text: \"a\\n{{ b }}\"}");
        assert!(
            text.contains("/x, line 2") && text.contains("a, guest"),
            "{text}"
        );
        // The machine ID is empty, and so there is none.
        assert!(
            told("- template: {path: /x, text: \"{{ guest.machine_id }}\"}").contains("undefined")
        );
        assert!(told("- template: {path: /x, text: \"{% if %}\"}").contains("line 1"));
        assert!(told("- template: {path: /x, text: a, vars: {guest: b}}").contains("guest"));
        assert!(told("- template: {path: /x}").contains("either"));
    }

    #[test]
    fn nothing_is_read_from_elsewhere_and_nothing_runs_on() {
        told("- template: {path: /x, text: \"{% include '/etc/passwd' %}\"}");
        told("- template: {path: /x, text: \"{% import '/etc/passwd' as x %}\"}");
        let many = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
        assert!(told(&format!("- template: {{path: /x, text: \"{many}\"}}")).contains("fuel"));
        let long = "{% for a in range(9999) %}{{ v }}{% endfor %}";
        let v = "x".repeat(9999);
        told(&format!(
            "- template: {{path: /x, vars: {{v: {v}}}, text: \"{long}\"}}"
        ));
    }
}
