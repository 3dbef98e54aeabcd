//! `#cloud-config`.

use serde_json::{Map, Value};

use super::super::super::super::guest::Guest;
use super::super::super::certificate::Certificate;
use super::super::super::clock::{Locale, Timezone};
use super::super::super::hostname::Hostname;
use super::{left_out, packages, quoted, run_once, users, value, write_files};
use diskfs_disk::Result;

type Config = Map<String, Value>;

pub(super) fn apply(guest: &mut Guest, text: &str) -> Result<()> {
    let parsed = serde_saphyr::from_str::<Value>(text).map_err(|error| {
        let told = error.to_string();
        let told = told.lines().next().unwrap_or_default();
        guest.invalid(format!("the user data is no #cloud-config: {told}"))
    })?;
    let mut config = match parsed {
        Value::Object(config) => config,
        Value::Null => Config::new(),
        _ => return Err(guest.invalid("the user data is no #cloud-config: it has no keys")),
    };
    set_name_and_place(guest, &mut config)?;
    users::apply(guest, &mut config)?;
    for file in value::take_list(&mut config, "write_files") {
        write_files::write(guest, file)?;
    }
    trust(guest, &mut config)?;
    put_script(guest, &mut config)?;
    for key in config.keys() {
        left_out(guest, &format!("`{key}`"));
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
        left_out(guest, &format!("`{other}` of ca_certs"));
    }
    Ok(())
}

/// What is run at the first start: commands, and what installs packages.
fn put_script(guest: &mut Guest, config: &mut Config) -> Result<()> {
    let mut lines = commands(guest, config, "bootcmd")?;
    if !lines.is_empty() {
        guest.note("user data: bootcmd is run at the first start alone, not at each");
    }
    lines.extend(packages::lines(guest, config)?);
    lines.extend(commands(guest, config, "runcmd")?);
    if lines.is_empty() {
        return Ok(());
    }
    run_once(guest, &format!("#!/bin/sh\n{}\n", lines.join("\n")))
}

/// Each a line of a shell's, or the words of one.
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
            _ => return Err(guest.invalid(format!("user data: one of {key} is no command"))),
        });
    }
    Ok(lines)
}
