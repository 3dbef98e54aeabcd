//! The expiry of accounts and of their passwords.

use diskfs_etc::shadow::{EXPIRE, FIELDS, INACTIVE, LAST_CHANGE, MAX_AGE};

use super::super::super::accounts::table::Table;
use super::super::super::accounts::{self, SHADOW};
use super::super::super::guest::Guest;
use diskfs_disk::Result;

/// The age that a password never reaches, as in login.defs(5) of most distributions.
const NEVER_DAYS: u32 = 99_999;

/// The day of the last change that requires a change at the next login.
const MUST_CHANGE: &str = "0";

/// Lets neither the account nor its password expire. Even a login with a key is refused if one of
/// them has.
pub(super) fn remove(guest: &mut Guest, name: &str) -> Result<()> {
    let Some(mut shadow) = Table::read(&guest.stage, SHADOW)? else {
        return Ok(());
    };
    let Some(row) = shadow.row(name) else {
        return Ok(());
    };
    let today = accounts::today(guest).to_string();
    let never = NEVER_DAYS.to_string();
    let ages = row.number(MAX_AGE).is_some_and(|days| days < NEVER_DAYS);
    let must_change = row.field(LAST_CHANGE) == MUST_CHANGE;
    let changes = [
        (LAST_CHANGE, must_change, &*today),
        (MAX_AGE, ages, &*never),
        (INACTIVE, !row.field(INACTIVE).is_empty(), ""),
        (EXPIRE, !row.field(EXPIRE).is_empty(), ""),
    ];
    for (field, _, value) in changes.iter().filter(|(_, is_needed, _)| *is_needed) {
        shadow.pad(name, FIELDS);
        shadow.set(name, *field, value);
    }
    shadow.write(&mut guest.stage)
}
