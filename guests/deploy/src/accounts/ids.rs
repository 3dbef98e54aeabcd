//! The choice of user and group IDs, as in useradd(8).

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use diskfs_etc::table::Row;

use super::super::guest::Guest;
use super::defaults::Defaults;
use super::table::Table;
use super::{GROUP, PASSWD};
use diskfs_disk::Result;

/// A kind of ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum IdKind {
    User,
    Group,
}

/// The purpose of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Purpose {
    /// An account for a service. IDs are assigned downward.
    System,
    /// An account for a person.
    Person,
}

/// The ranges if login.defs(5) does not set them.
const MIN: u32 = 1000;
const MAX: u32 = 60_000;
const SYS_MIN: u32 = 101;

/// The range and the number of subordinate IDs if login.defs does not set them.
const SUB_MIN: u32 = 100_000;
const SUB_MAX: u32 = 600_100_000;
const SUB_COUNT: u32 = 65_536;

impl IdKind {
    fn file(self) -> &'static str {
        match self {
            Self::User => PASSWD,
            Self::Group => GROUP,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::User => "UID",
            Self::Group => "GID",
        }
    }
}

/// Returns the IDs in use. They are in the third field of both files.
pub(in super::super) fn used(guest: &Guest, id: IdKind) -> Result<BTreeSet<u32>> {
    let Some(table) = Table::read(&guest.stage, id.file())? else {
        return Ok(BTreeSet::new());
    };
    let number = |row: Row<'_>| row.number(2);
    Ok(table.rows().filter_map(number).collect())
}

/// Returns the range of IDs for a purpose.
pub(in super::super) fn range(
    defaults: &Defaults,
    id: IdKind,
    purpose: Purpose,
) -> RangeInclusive<u32> {
    let of = |key: &str| defaults.number(&key.replace('?', id.name()));
    let min = of("?_MIN").unwrap_or(MIN);
    match purpose {
        Purpose::Person => min..=of("?_MAX").unwrap_or(MAX),
        Purpose::System => {
            let max = of("SYS_?_MAX").unwrap_or(min.saturating_sub(1));
            of("SYS_?_MIN").unwrap_or(SYS_MIN)..=max
        }
    }
}

/// Returns a free ID: the next one after (for services: before) all IDs in use, or the first free
/// one if the range ends there.
pub(in super::super) fn free(
    used: &BTreeSet<u32>,
    range: &RangeInclusive<u32>,
    purpose: Purpose,
) -> Option<u32> {
    // BTreeSet::range() panics for a reversed range.
    if range.is_empty() {
        return None;
    }
    let mut in_use = used.range(range.clone());
    let is_free = |number: &u32| range.contains(number) && !used.contains(number);
    match purpose {
        Purpose::Person => {
            let next = in_use
                .next_back()
                .map_or(Some(*range.start()), |last| last.checked_add(1));
            next.filter(is_free).or_else(|| range.clone().find(is_free))
        }
        Purpose::System => {
            let next = in_use
                .next()
                .map_or(Some(*range.end()), |first| first.checked_sub(1));
            next.filter(is_free)
                .or_else(|| range.clone().rev().find(is_free))
        }
    }
}

/// Assigns subordinate IDs in `/etc/subuid` or `/etc/subgid`, if the file exists and has no line of
/// the user.
pub(in super::super) fn add_subordinate(
    guest: &mut Guest,
    defaults: &Defaults,
    id: IdKind,
    name: &str,
) -> Result<()> {
    let (path, key) = match id {
        IdKind::User => ("/etc/subuid", "SUB_UID"),
        IdKind::Group => ("/etc/subgid", "SUB_GID"),
    };
    let Some(mut table) = Table::read(&guest.stage, path)? else {
        return Ok(());
    };
    let of = |end: &str, other| defaults.number(&format!("{key}_{end}")).unwrap_or(other);
    let (min, max, count) = (
        of("MIN", SUB_MIN),
        of("MAX", SUB_MAX),
        of("COUNT", SUB_COUNT),
    );
    if table.row(name).is_some() || count == 0 {
        return Ok(());
    }
    let Some(first) = first_gap(&table, min, max, count) else {
        guest.note(format!(
            "no free range of subordinate IDs for `{name}` in {path}"
        ));
        return Ok(());
    };
    table.add(&[name, &first.to_string(), &count.to_string()]);
    table.write(&mut guest.stage)
}

/// Returns the first ID of the lowest range of `count` free IDs.
fn first_gap(table: &diskfs_etc::table::Table, min: u32, max: u32, count: u32) -> Option<u32> {
    let range = |row: Row<'_>| {
        let (first, count) = (row.number(1)?, row.number(2)?);
        Some((first, first.saturating_add(count)))
    };
    let mut ranges: Vec<(u32, u32)> = table.rows().filter_map(range).collect();
    ranges.sort_unstable();
    let mut low = min;
    for (first, end) in ranges {
        if first >= low.checked_add(count)? {
            break;
        }
        low = low.max(end);
    }
    let last = low.checked_add(count.checked_sub(1)?)?;
    (last <= max).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_beyond_those_in_use() {
        let used = BTreeSet::from([0, 998, 999, 1000, 1005, 65534]);
        let person = |range| free(&used, &range, Purpose::Person);
        assert_eq!(person(1000..=60000), Some(1006));
        assert_eq!(person(1000..=1005), Some(1001));
        assert_eq!(person(2000..=3000), Some(2000));
        assert_eq!(person(1000..=1000), None);
        assert_eq!(person(RangeInclusive::new(3, 2)), None);
        let system = |range| free(&used, &range, Purpose::System);
        assert_eq!(system(101..=999), Some(997));
        assert_eq!(system(998..=1003), Some(1003));
        assert_eq!(system(0..=10), Some(10));
        assert_eq!(system(0..=0), None);
    }

    #[test]
    fn subordinate_numbers_fill_gaps() {
        let gap = |text| {
            first_gap(
                &diskfs_etc::table::Table::new(text),
                100_000,
                400_000,
                65536,
            )
        };
        assert_eq!(gap(""), Some(100_000));
        assert_eq!(gap("a:100000:65536\n"), Some(165_536));
        assert_eq!(gap("b:231072:65536\na:100000:65536\n"), Some(165_536));
        assert_eq!(gap("b:170000:65536\n"), Some(100_000));
        assert_eq!(gap("b:100001:4000000000\n"), None);
        assert_eq!(gap("nonsense\n:::\nb:x:y\n"), Some(100_000));
    }
}
