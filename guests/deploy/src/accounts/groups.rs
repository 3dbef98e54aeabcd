//! Groups and their members: group(5), and gshadow(5) if the guest has it.

use diskfs_etc::{group, gshadow};

use super::super::guest::Guest;
use super::super::stage::Stage;
use super::table::Table;
use super::{GROUP, GSHADOW};
use diskfs_disk::Result;

/// Returns the name of the first group with an ID.
pub(in super::super) fn name_of(stage: &Stage, gid: u32) -> Result<Option<String>> {
    let table = Table::read(stage, GROUP)?;
    let group = table
        .as_ref()
        .and_then(|table| group::groups(table).find(|group| group.gid == gid));
    Ok(group.map(|group| group.name.to_owned()))
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
        gshadow::add(&mut hidden, name);
        hidden.write(&mut guest.stage)?;
    }
    Ok(())
}

/// Adds a user to a group, in both files.
pub(in super::super) fn add_member(guest: &mut Guest, name: &str, user: &str) -> Result<()> {
    for path in [GROUP, GSHADOW] {
        if let Some(mut table) = Table::read(&guest.stage, path)? {
            group::add_member(&mut table, name, user);
            table.write(&mut guest.stage)?;
        }
    }
    Ok(())
}
