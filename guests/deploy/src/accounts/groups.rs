//! Groups and their members: group(5), and gshadow(5) where the guest has it.

use super::super::guest::Guest;
use super::super::stage::Stage;
use super::table::Table;
use super::{GROUP, GSHADOW};
use diskfs_disk::Result;

/// The field of the members in both files.
const MEMBERS: usize = 3;

/// The name of the first group with a number.
pub(in super::super) fn name_of(stage: &Stage, gid: u32) -> Result<Option<String>> {
    let table = Table::read(stage, GROUP)?;
    let row = table.as_ref().and_then(|table| {
        let mut rows = table.rows();
        rows.find(|row| row.get(2).and_then(|it| it.parse().ok()) == Some(gid))
    });
    Ok(row.and_then(|row| row.first().map(|name| (*name).to_owned())))
}

/// Adds a group without members.
pub(in super::super) fn add(guest: &mut Guest, name: &str, gid: u32) -> Result<()> {
    let hidden = Table::read(&guest.stage, GSHADOW)?;
    if let Some(mut groups) = Table::read(&guest.stage, GROUP)? {
        groups.add(&[name, "x", &gid.to_string(), ""]);
        groups.write(&mut guest.stage)?;
    } else {
        let line = format!("{name}:x:{gid}:\n");
        guest.stage.write_text(GROUP, &line)?;
    }
    if let Some(mut hidden) = hidden {
        hidden.add(&[name, "!", "", ""]);
        hidden.write(&mut guest.stage)?;
    }
    Ok(())
}

/// Makes a user a member of a group, in both files.
pub(in super::super) fn add_member(guest: &mut Guest, group: &str, user: &str) -> Result<()> {
    for path in [GROUP, GSHADOW] {
        let Some(mut table) = Table::read(&guest.stage, path)? else {
            continue;
        };
        let Some(members) = table.field(group, MEMBERS) else {
            continue;
        };
        if members.split(',').any(|member| member == user) {
            continue;
        }
        let members = if members.is_empty() {
            user.to_owned()
        } else {
            format!("{members},{user}")
        };
        table.set(group, MEMBERS, &members);
        table.write(&mut guest.stage)?;
    }
    Ok(())
}
