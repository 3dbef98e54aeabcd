//! Removal of user accounts.

use std::collections::BTreeMap;

use diskfs_etc::{group, passwd};

use super::super::super::accounts::defaults::Defaults;
use super::super::super::accounts::ids::{IdKind, Purpose, range};
use super::super::super::accounts::table::Table;
use super::super::super::accounts::{self, GROUP, GSHADOW, PASSWD, SHADOW};
use super::super::super::guest::Guest;
use diskfs_disk::Result;

/// The files with one line per user.
const TABLES: [&str; 4] = [PASSWD, SHADOW, "/etc/subuid", "/etc/subgid"];

/// The parent directories of users' home directories.
const HOMES: [&str; 2] = ["/home", "/var/home"];

/// The directories with files named after users.
const SPOOLS: [&str; 4] = [
    "/var/mail",
    "/var/spool/mail",
    "/var/spool/cron",
    "/var/spool/cron/crontabs",
];

/// A user to remove.
struct RemovedUser {
    name: String,
    gid: u32,
    home: String,
}

/// Removes all users whose IDs are in the range of login.defs(5) for users, with their private
/// groups and home directories.
pub(super) fn remove(guest: &mut Guest) -> Result<()> {
    let people = people(guest)?;
    for person in &people {
        for path in TABLES {
            if let Some(mut table) = Table::read(&guest.stage, path)? {
                table.remove(&person.name);
                table.write(&mut guest.stage)?;
            }
        }
        remove_from_groups(guest, person)?;
        remove_files(guest, person)?;
    }
    Ok(())
}

fn people(guest: &Guest) -> Result<Vec<RemovedUser>> {
    let numbers = range(
        &Defaults::read(&guest.stage)?,
        IdKind::User,
        Purpose::Person,
    );
    let Some(table) = Table::read(&guest.stage, PASSWD)? else {
        return Ok(Vec::new());
    };
    let mut people = BTreeMap::new();
    for user in passwd::users(&table) {
        // If several lines have the same name, the first one counts.
        people.entry(user.name).or_insert(user);
    }
    let is_person = |user: &passwd::User<'_>| numbers.contains(&user.uid);
    let people = people.into_values().filter(is_person);
    let people = people.map(|user| RemovedUser {
        name: user.name.to_owned(),
        gid: user.gid,
        home: user.home.to_owned(),
    });
    Ok(people.collect())
}

fn remove_from_groups(guest: &mut Guest, person: &RemovedUser) -> Result<()> {
    let own = accounts::gid_of(&guest.stage, &person.name)? == Some(person.gid);
    for path in [GROUP, GSHADOW] {
        let Some(mut table) = Table::read(&guest.stage, path)? else {
            continue;
        };
        if own {
            table.remove(&person.name);
        }
        group::remove_member(&mut table, &person.name);
        table.write(&mut guest.stage)?;
    }
    Ok(())
}

fn remove_files(guest: &mut Guest, person: &RemovedUser) -> Result<()> {
    let home = person.home.trim_end_matches('/');
    let is_plain = home.split('/').all(|name| name != "..");
    let is_own = HOMES.iter().any(|homes| {
        let below = home
            .strip_prefix(homes)
            .and_then(|rest| rest.strip_prefix('/'));
        below.is_some_and(|name| !name.is_empty())
    });
    if is_own && is_plain {
        guest.stage.remove(home)?;
    } else if !home.is_empty() && guest.stage.is_dir(home)? {
        guest.note(format!(
            "kept {home}, the home directory of {}: it is not below /home",
            person.name
        ));
    }
    // In a hostile guest, a user name may not be a valid file name.
    if !accounts::is_name(&person.name) {
        return Ok(());
    }
    for dir in SPOOLS {
        guest.stage.remove(&format!("{dir}/{}", person.name))?;
    }
    Ok(())
}
