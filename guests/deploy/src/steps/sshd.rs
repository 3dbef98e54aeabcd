//! The step `sshd`: options in `sshd_config(5)`, where the first line that sets a keyword takes
//! effect.

pub(super) mod config;

use std::collections::BTreeMap;

use diskfs_etc::sshd_config::with_setting;
use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use config::{Config, DROP_IN, ETC_MAIN, is};
use diskfs_disk::Result;

/// The values of `PermitRootLogin`.
const ROOT_LOGIN: [&str; 5] = [
    "yes",
    "no",
    "prohibit-password",
    "without-password",
    "forced-commands-only",
];

/// Keywords that are not options.
const NO_SETTINGS: [&str; 2] = ["include", "match"];

/// Options of the SSH server. If `sshd_config` includes `sshd_config.d` first, as on Debian and Red
/// Hat, the options are written to a drop-in file there; otherwise into `sshd_config` before the
/// first `Match`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sshd {
    /// The login of root: `yes`, `no`, `prohibit-password` or `forced-commands-only`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit_root_login: Option<String>,
    /// Allows or forbids login with a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_authentication: Option<bool>,
    /// The only port to listen on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Other options, by their names in `sshd_config(5)`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, Value>,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`, written as `yes` or `no`.
    Flag(bool),
    /// A number, such as a count or a time.
    Number(u64),
    /// Any other value, as text.
    Text(String),
}

impl Sshd {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        for (key, value) in self.settings(guest)? {
            set(guest, &key, &value)?;
        }
        Ok(())
    }

    /// Returns all options with their names in `sshd_config(5)`.
    fn settings(&self, guest: &Guest) -> Result<Vec<(String, String)>> {
        let mut settings = Vec::new();
        if let Some(value) = &self.permit_root_login {
            if !ROOT_LOGIN.contains(&value.as_str()) {
                let reason = format!(
                    "unknown value `{value}` of PermitRootLogin; known: yes, no, \
                     prohibit-password, without-password, forced-commands-only"
                );
                return Err(guest.invalid(reason));
            }
            settings.push(("PermitRootLogin".to_owned(), value.clone()));
        }
        if let Some(flag) = self.password_authentication {
            settings.push(("PasswordAuthentication".to_owned(), yes_no(flag)));
        }
        if let Some(port) = self.port {
            settings.push(("Port".to_owned(), port.to_string()));
        }
        for (key, value) in &self.options {
            settings.push((key.clone(), value.text().trim().to_owned()));
        }
        for (key, value) in &settings {
            let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let is_odd = NO_SETTINGS.contains(&key.to_ascii_lowercase().as_str());
            let breaks = value.is_empty() || value.contains(['\n', '\r', '\0']);
            if !is_key || is_odd || breaks || key == "Port" && value == "0" {
                let reason = format!("invalid option of sshd: `{key} {}`", value.escape_debug());
                return Err(guest.invalid(reason));
            }
        }
        Ok(settings)
    }
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Flag(flag) => yes_no(*flag),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

fn yes_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

/// Sets an option in the file where it takes effect.
fn set(guest: &mut Guest, key: &str, value: &str) -> Result<()> {
    let Some(config) = Config::read(guest)? else {
        return Err(
            guest.invalid("the OpenSSH server is not installed in the guest (missing sshd_config)")
        );
    };
    let is_port = key.eq_ignore_ascii_case("Port");
    if config.has_value(key, value) {
        return Ok(());
    }
    let in_drop_in = config.drop_in_counts(key) && !(is_port && config.main_sets(key));
    let text = if in_drop_in {
        guest.stage.text(DROP_IN)?.unwrap_or_default()
    } else {
        config.main().to_owned()
    };
    let text = with_setting(&text, key, value);
    if in_drop_in {
        guest.stage.write_with(DROP_IN, &text, 0o600)?;
    } else {
        guest.stage.write_text(ETC_MAIN, &text)?;
    }
    note_precedence(guest, key, value)
}

/// Adds a note for each line that takes effect before the written one.
fn note_precedence(guest: &mut Guest, key: &str, value: &str) -> Result<()> {
    let Some(config) = Config::read(guest)? else {
        return Ok(());
    };
    if config.has_value(key, value) {
        return Ok(());
    }
    for setting in config.of(key).filter(|setting| !is(setting, value)) {
        let (file, other) = (&setting.file, setting.arguments.join(" "));
        guest.note(format!(
            "{file} sets `{key} {other}`, which takes precedence or also applies"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
