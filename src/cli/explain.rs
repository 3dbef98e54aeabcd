//! The report of `diskfs mount --explain`: which filesystems of the images are mounted where.

use std::io::Write;

use diskfs::guest::{self, MountReport, SystemReport, VolumeUse};
use diskfs::{Disk, Result};
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
                "systems": systems.iter().map(system_json).collect::<Vec<_>>(),
                "not_mounted": unused.iter().map(unused_json).collect::<Vec<_>>(),
            });
            document::write(&mut out, session.command(), body)?;
        }
        Output::Text => {
            for (number, system) in (1..).zip(&systems) {
                write_system(&mut out, number, system)?;
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

fn write_system(out: &mut impl Write, number: usize, system: &SystemReport) -> Result<()> {
    write_line(out, &format!("operating system {number}: {}", system.name))?;
    write_line(out, &format!("  / from {}", system.root))?;
    for mount in &system.mounts {
        let at = String::from_utf8_lossy(&mount.at);
        write_line(out, &format!("  {at}{}", sentence(mount)))?;
    }
    Ok(())
}

/// Writes a line. It can contain text of the guest, which must not control a terminal.
fn write_line(out: &mut impl Write, line: &str) -> Result<()> {
    Ok(writeln!(out, "{}", message(line))?)
}

/// Describes a mount, as ` from vg0/var (/etc/fstab, line 3)` or ` skipped: noauto`.
fn sentence(mount: &MountReport) -> String {
    let from = mount.volume.as_ref().unwrap_or(&mount.what);
    let origin = &mount.origin;
    match &mount.problem {
        None => format!(" from {from} ({origin})"),
        Some(problem) => format!(" skipped: {problem} ({origin}: {})", mount.what),
    }
}

fn system_json(system: &SystemReport) -> Value {
    json!({
        "name": system.name,
        "root": system.root,
        "mounts": system.mounts.iter().map(mount_json).collect::<Vec<_>>(),
    })
}

fn mount_json(mount: &MountReport) -> Value {
    let mut fields = Map::new();
    put_name(&mut fields, "path", &mount.at);
    fields.insert("what".to_owned(), mount.what.clone().into());
    fields.insert("volume".to_owned(), mount.volume.clone().into());
    fields.insert("from".to_owned(), mount.origin.to_string().into());
    fields.insert("mounted".to_owned(), mount.problem.is_none().into());
    fields.insert("problem".to_owned(), mount.problem.clone().into());
    Value::Object(fields)
}

fn unused_json(volume: &VolumeUse) -> Value {
    json!({ "volume": volume.volume, "type": volume.kind, "reason": volume.reason })
}
