//! The accounts of people.

use std::collections::BTreeMap;

use diskfs_etc::{group, passwd};

use super::super::super::accounts::defaults::Defaults;
use super::super::super::accounts::ids::{Id, Purpose, range};
use super::super::super::accounts::table::Table;
use super::super::super::accounts::{self, GROUP, GSHADOW, PASSWD, SHADOW};
use super::super::super::guest::Guest;
use diskfs_disk::Result;

/// Files with a line for a user.
const TABLES: [&str; 4] = [PASSWD, SHADOW, "/etc/subuid", "/etc/subgid"];

/// Where people's homes are.
const HOMES: [&str; 2] = ["/home", "/var/home"];

/// Where else there is something by a user's name.
const SPOOLS: [&str; 4] = [
    "/var/mail",
    "/var/spool/mail",
    "/var/spool/cron",
    "/var/spool/cron/crontabs",
];

/// Someone who goes.
struct Person {
    name: String,
    gid: u32,
    home: String,
}

/// Removes all whose numbers login.defs(5) has for people, with their own groups and homes.
pub(super) fn remove(guest: &mut Guest) -> Result<()> {
    let people = people(guest)?;
    for person in &people {
        for path in TABLES {
            if let Some(mut table) = Table::read(&guest.stage, path)? {
                table.remove(&person.name);
                table.write(&mut guest.stage)?;
            }
        }
        leave_groups(guest, person)?;
        remove_files(guest, person)?;
    }
    Ok(())
}

fn people(guest: &Guest) -> Result<Vec<Person>> {
    let numbers = range(&Defaults::read(&guest.stage)?, Id::User, Purpose::Person);
    let Some(table) = Table::read(&guest.stage, PASSWD)? else {
        return Ok(Vec::new());
    };
    let mut people = BTreeMap::new();
    for user in passwd::users(&table) {
        // Of several lines with a name the first one counts.
        people.entry(user.name).or_insert(user);
    }
    let is_person = |user: &passwd::User<'_>| numbers.contains(&user.uid);
    let people = people.into_values().filter(is_person);
    let people = people.map(|user| Person {
        name: user.name.to_owned(),
        gid: user.gid,
        home: user.home.to_owned(),
    });
    Ok(people.collect())
}

fn leave_groups(guest: &mut Guest, person: &Person) -> Result<()> {
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

fn remove_files(guest: &mut Guest, person: &Person) -> Result<()> {
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
            "{home}, the home of {}, stays: it is not below /home",
            person.name
        ));
    }
    // A name of a hostile guest may be none of a file.
    if !accounts::is_name(&person.name) {
        return Ok(());
    }
    for dir in SPOOLS {
        guest.stage.remove(&format!("{dir}/{}", person.name))?;
    }
    Ok(())
}
