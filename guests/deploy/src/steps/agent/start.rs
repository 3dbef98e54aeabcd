//! What starts an agent with the guest.

use super::super::super::guest::{Guest, UNITS};
use super::super::cron::CronStep;
use super::super::firstboot::{LOCAL_D, start_local};
use super::super::units;
use diskfs_disk::Result;

/// Where cron has files of jobs.
const CRON_D: &str = "/etc/cron.d";

pub(super) fn check_name(guest: &Guest, name: &str) -> Result<()> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_good) {
        let reason = format!("`{name}` is no name of an agent: letters, digits, - and _");
        return Err(guest.invalid(reason));
    }
    Ok(())
}

/// Whether one of that name was put there before.
pub(super) fn is_there(guest: &Guest, name: &str) -> Result<bool> {
    for path in [
        format!("{UNITS}/{name}.service"),
        format!("{LOCAL_D}/{name}.start"),
        format!("{CRON_D}/{name}"),
    ] {
        if guest.stage.is_file(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A unit where the guest has systemd; else what `OpenRC` or cron runs when it starts.
pub(super) fn put(
    guest: &mut Guest,
    name: &str,
    unit: Option<&str>,
    command: Option<&str>,
) -> Result<()> {
    if guest.has_systemd()? {
        let Some(text) = unit else {
            return Ok(());
        };
        let unit = format!("{name}.service");
        guest
            .stage
            .write_with(&format!("{UNITS}/{unit}"), text, 0o644)?;
        // Without, something else starts it.
        if text.lines().any(|line| line.trim() == "[Install]") {
            units::enable(guest, &unit)?;
        }
        return Ok(());
    }
    let Some(command) = command else {
        if unit.is_some() {
            guest.note(format!(
                "the guest has no systemd, and nothing says what else starts {name}: give a command"
            ));
        }
        return Ok(());
    };
    if guest.stage.is_dir(LOCAL_D)? {
        return start_local(guest, &format!("{name}.start"), command);
    }
    CronStep {
        name: name.to_owned(),
        schedule: "@reboot".to_owned(),
        user: "root".to_owned(),
        command: command.to_owned(),
    }
    .apply(guest)
}
