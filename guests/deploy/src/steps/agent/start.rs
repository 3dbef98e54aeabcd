//! The start of an agent at boot.

use super::super::super::guest::{Guest, UNITS};
use super::super::cron::CronStep;
use super::super::firstboot::{LOCAL_D, start_local};
use super::super::units;
use diskfs_disk::Result;

/// The directory of cron's job files.
const CRON_D: &str = "/etc/cron.d";

pub(super) fn check_name(guest: &Guest, name: &str) -> Result<()> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_good) {
        let reason = format!("invalid agent name `{name}`: expected letters, digits, - and _");
        return Err(guest.invalid(reason));
    }
    Ok(())
}

/// Returns true if an earlier deployment installed an agent of that name.
pub(super) fn is_installed(guest: &Guest, name: &str) -> Result<bool> {
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

/// Installs what starts the agent: a unit in guests with systemd, otherwise a command that `OpenRC`
/// or cron runs at boot.
pub(super) fn install(
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
        // Something else starts a unit without [Install].
        if text.lines().any(|line| line.trim() == "[Install]") {
            units::enable(guest, &unit)?;
        }
        return Ok(());
    }
    let Some(command) = command else {
        if unit.is_some() {
            guest.note(format!(
                "{name} will not be started: the guest does not use systemd, and no `command` \
                 was given"
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
