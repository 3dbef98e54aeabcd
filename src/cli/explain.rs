//! The report of `diskfs mount --explain`: which filesystems of the images are mounted where.

use std::io::Write;

use diskfs::guest::{self, MountReport, SystemReport, VolumeUse};
use diskfs::{ChosenDriver, Disk, Result};
use serde_json::{Map, Value, json};

use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::json::put_name;
use super::show::name::message;

/// Writes the report.
pub(super) fn run(disk: &Disk, session: &mut Session) -> Result<()> {
    let systems = guest::systems(disk)?;
    let systems = systems.iter().map(guest::System::explain);
    let systems = systems.collect::<Result<Vec<SystemReport>>>()?;
    let unused = guest::unused_volumes(disk, &systems)?;
    session.print_warnings(disk);
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let body = json!({
                "systems": systems.iter().map(|system| system_json(system, disk)).collect::<Vec<_>>(),
                "not_mounted": unused.iter().map(unused_json).collect::<Vec<_>>(),
            });
            document::write(&mut out, session.command(), body)?;
        }
        Output::Text => {
            for (number, system) in (1..).zip(&systems) {
                write_system(&mut out, number, system, disk)?;
            }
            for volume in &unused {
                write_line(&mut out, &format!("{}: {}", volume.volume, volume.reason))?;
            }
        }
    }
    out.flush()?;
    if systems.is_empty() && !guest::unopened(disk)?.is_empty() {
        return Err(guest::no_system(disk));
    }
    Ok(())
}

fn write_system(
    out: &mut impl Write,
    number: usize,
    system: &SystemReport,
    disk: &Disk,
) -> Result<()> {
    write_line(out, &format!("operating system {number}: {}", system.name))?;
    let root = from(&system.root, disk);
    write_line(out, &format!("  / {root}"))?;
    for mount in &system.mounts {
        let at = String::from_utf8_lossy(&mount.at);
        write_line(out, &format!("  {at}{}", sentence(mount, disk)))?;
    }
    Ok(())
}

/// Names a volume, and the driver that opens its filesystem unless it is one of diskfs.
fn from(volume: &str, disk: &Disk) -> String {
    match driver(volume, disk) {
        Some("vm") => format!("from {volume} in a microVM"),
        _ => format!("from {volume}"),
    }
}

/// Returns the driver of a volume's filesystem as in the report of `diskfs info`.
fn driver(volume: &str, disk: &Disk) -> Option<&'static str> {
    match disk.volume(volume).ok()?.driver().ok()? {
        ChosenDriver::Native => Some("native"),
        ChosenDriver::Fallback(_) => Some("vm"),
        _ => None,
    }
}

/// Writes a line. It can contain text of the guest, which must not control a terminal.
fn write_line(out: &mut impl Write, line: &str) -> Result<()> {
    Ok(writeln!(out, "{}", message(line))?)
}

/// Describes a mount, as ` from vg0/var (/etc/fstab, line 3)` or ` skipped: noauto`.
fn sentence(mount: &MountReport, disk: &Disk) -> String {
    let origin = &mount.origin;
    match &mount.problem {
        None => {
            let volume = mount.volume.as_ref().unwrap_or(&mount.what);
            format!(" {} ({origin})", from(volume, disk))
        }
        Some(problem) => format!(" skipped: {problem} ({origin}: {})", mount.what),
    }
}

fn system_json(system: &SystemReport, disk: &Disk) -> Value {
    json!({
        "name": system.name,
        "root": system.root,
        "driver": driver(&system.root, disk),
        "mounts": system.mounts.iter().map(|mount| mount_json(mount, disk)).collect::<Vec<_>>(),
    })
}

fn mount_json(mount: &MountReport, disk: &Disk) -> Value {
    let mut fields = Map::new();
    put_name(&mut fields, "path", &mount.at);
    fields.insert("what".to_owned(), mount.what.clone().into());
    fields.insert("volume".to_owned(), mount.volume.clone().into());
    let driver = mount.volume.as_ref().and_then(|name| driver(name, disk));
    fields.insert("driver".to_owned(), driver.into());
    fields.insert("from".to_owned(), mount.origin.to_string().into());
    fields.insert("mounted".to_owned(), mount.problem.is_none().into());
    fields.insert("problem".to_owned(), mount.problem.clone().into());
    Value::Object(fields)
}

fn unused_json(volume: &VolumeUse) -> Value {
    json!({ "volume": volume.volume, "type": volume.kind, "reason": volume.reason })
}
