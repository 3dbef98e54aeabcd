//! User data in the form of `#cloud-config`.

use serde_json::{Map, Value};

use super::super::super::super::guest::Guest;
use super::super::super::certificate::Certificate;
use super::super::super::clock::{Locale, Timezone};
use super::super::super::hostname::Hostname;
use super::{note_ignored, packages, quoted, run_once, users, value, write_files};
use diskfs_disk::Result;

type Config = Map<String, Value>;

pub(super) fn apply(guest: &mut Guest, text: &str) -> Result<()> {
    let parsed = serde_saphyr::from_str::<Value>(text).map_err(|error| {
        let told = error.to_string();
        let told = told.lines().next().unwrap_or_default();
        guest.invalid(format!("invalid #cloud-config in the user data: {told}"))
    })?;
    let mut config = match parsed {
        Value::Object(config) => config,
        Value::Null => Config::new(),
        _ => return Err(guest.invalid("invalid #cloud-config in the user data: expected a map")),
    };
    set_name_and_place(guest, &mut config)?;
    users::apply(guest, &mut config)?;
    for file in value::take_list(&mut config, "write_files") {
        write_files::write(guest, file)?;
    }
    trust(guest, &mut config)?;
    put_script(guest, &mut config)?;
    for key in config.keys() {
        note_ignored(guest, &format!("`{key}`"));
    }
    Ok(())
}

fn set_name_and_place(guest: &mut Guest, config: &mut Config) -> Result<()> {
    let hostname = value::take_text(config, "hostname");
    let fqdn = value::take_text(config, "fqdn");
    let name = match value::take_flag(config, "prefer_fqdn_over_hostname") {
        Some(true) => fqdn.or(hostname),
        _ => hostname.or(fqdn),
    };
    if let Some(name) = name {
        Hostname(name).apply(guest)?;
    }
    if let Some(zone) = value::take_text(config, "timezone") {
        Timezone(zone).apply(guest)?;
    }
    if let Some(locale) = value::take_text(config, "locale") {
        Locale(locale).apply(guest)?;
    }
    Ok(())
}

fn trust(guest: &mut Guest, config: &mut Config) -> Result<()> {
    let Some(Value::Object(mut authorities)) = value::take(config, "ca_certs") else {
        return Ok(());
    };
    let trusted = value::take_lines(&mut authorities, "trusted");
    for (pem, number) in trusted.into_iter().zip(1_usize..) {
        let name = format!("cloud-init-ca-cert-{number}");
        Certificate { name, pem }.apply(guest)?;
    }
    for other in authorities.keys() {
        note_ignored(guest, &format!("`{other}` of ca_certs"));
    }
    Ok(())
}

/// Adds the script for the first boot: the commands, and the installation of packages.
fn put_script(guest: &mut Guest, config: &mut Config) -> Result<()> {
    let mut lines = commands(guest, config, "bootcmd")?;
    if !lines.is_empty() {
        guest.note("user data: bootcmd runs only at the first boot, not at each boot");
    }
    lines.extend(packages::lines(guest, config)?);
    lines.extend(commands(guest, config, "runcmd")?);
    if lines.is_empty() {
        return Ok(());
    }
    run_once(guest, &format!("#!/bin/sh\n{}\n", lines.join("\n")))
}

/// Returns the commands of a key. Each is a shell command line, or a list of words.
fn commands(guest: &Guest, config: &mut Config, key: &str) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for command in value::take_list(config, key) {
        lines.push(match &command {
            Value::Null => continue,
            Value::String(line) => line.clone(),
            Value::Array(words) => {
                let words = words.iter().filter_map(value::text);
                let words: Vec<String> = words.map(|word| quoted(&word)).collect();
                words.join(" ")
            }
            _ => {
                return Err(guest.invalid(format!(
                    "user data: invalid command in {key}: expected text or a list"
                )));
            }
        });
    }
    Ok(lines)
}
