//! The guest's users and groups, as its own files list them: passwd(5), group(5).

use super::stage::Stage;
use crate::Result;

pub(super) const PASSWD: &str = "/etc/passwd";
pub(super) const GROUP: &str = "/etc/group";

/// A line of passwd(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: String,
    pub(super) shell: String,
}

/// The first user of that name: the one that getpwnam(3) finds.
pub(super) fn user(stage: &Stage, name: &str) -> Result<Option<User>> {
    let text = stage.text(PASSWD)?.unwrap_or_default();
    let mut users = text.lines().filter_map(parse_user);
    Ok(users.find(|user| user.name == name))
}

/// The number of the first group of that name.
pub(super) fn gid_of(stage: &Stage, name: &str) -> Result<Option<u32>> {
    let text = stage.text(GROUP)?.unwrap_or_default();
    let mut lines = text.lines();
    Ok(lines.find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let gid = fields.nth(1)?.parse().ok()?;
        is_it.then_some(gid)
    }))
}

fn parse_user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    Some(User {
        name: name.to_owned(),
        uid: fields.nth(1)?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
        home: fields.nth(1).unwrap_or_default().to_owned(),
        shell: fields.next().unwrap_or_default().to_owned(),
    })
}
