//! `diskfs mount --explain`: what of the images would be seen where.

use std::io::Write;

use diskfs::guest::{self, MountReport, SystemReport, VolumeUse};
use diskfs::{Disk, Result};
use serde_json::{Map, Value, json};

use super::session::{Output, Session, name_style, stdout};
use super::show::json as document;
use super::show::json::put_name;
use super::show::name::NameStyle;

/// Writes it.
pub(super) fn run(disk: &Disk, session: &mut Session) -> Result<()> {
    let systems = guest::systems(disk)?;
    let systems = systems.iter().map(guest::System::explain);
    let systems = systems.collect::<Result<Vec<SystemReport>>>()?;
    let unused = guest::unused_volumes(disk, &systems)?;
    session.warn_of(disk);
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
            let style = name_style(NameStyle::Escaped);
            for (number, system) in (1..).zip(&systems) {
                write_system(&mut out, number, system, style)?;
            }
            for volume in &unused {
                writeln!(out, "{}: {}", volume.volume, volume.reason)?;
            }
        }
    }
    Ok(out.flush()?)
}

fn write_system(
    out: &mut impl Write,
    number: usize,
    system: &SystemReport,
    style: NameStyle,
) -> Result<()> {
    writeln!(out, "operating system {number}: {}", system.name)?;
    writeln!(out, "  / from {}", system.root)?;
    for mount in &system.mounts {
        let at = style.show(&mount.at);
        out.write_all(b"  ")?;
        out.write_all(&at)?;
        writeln!(out, "{}", sentence(mount))?;
    }
    Ok(())
}

/// ` from vg0/var (/etc/fstab, line 3)`; ` skipped: noauto`.
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
