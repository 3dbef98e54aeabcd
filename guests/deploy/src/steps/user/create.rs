//! Creation of users: the lines in the account files, and the home directory.

use super::super::super::accounts::defaults::Defaults;
use super::super::super::accounts::ids::{self, IdKind, Purpose};
use super::super::super::accounts::table::Table;
use super::super::super::accounts::{self, GROUP, PASSWD, SHADOW, groups};
use super::super::super::guest::Guest;
use super::{SH, User, home, shell_of};
use diskfs_disk::Result;

/// The default primary group of users without a group of their own: `users`.
const USERS: u32 = 100;

impl User {
    pub(super) fn create(&self, guest: &mut Guest) -> Result<()> {
        if !accounts::is_name(&self.name) {
            let reason = format!("invalid user name `{}`", self.name.escape_debug());
            let hint = "use at most 32 lower-case letters, digits, `-` and `_`, starting with a \
                 letter or `_`";
            return Err(guest.invalid(reason).with_hint(hint));
        }
        let defaults = Defaults::read(&guest.stage)?;
        let uid = self.new_uid(guest, &defaults)?;
        let gid = self.first_group(guest, &defaults, uid)?;
        let base = defaults.useradd("HOME").unwrap_or("/home");
        let home = match &self.home {
            Some(home) => home.clone(),
            None => format!("{}/{}", base.trim_end_matches('/'), self.name),
        };
        let shell = self.new_shell(guest, &defaults)?;
        self.add_lines(guest, &defaults, (uid, gid), &home, &shell)?;
        self.add_subordinates(guest, &defaults, uid)?;
        let is_made = match self.purpose() {
            Purpose::System => self.home.is_some(),
            // useradd's own default is no, which is not useful for people.
            Purpose::Person => {
                self.home.is_some() || defaults.is_yes("CREATE_HOME").unwrap_or(true)
            }
        };
        if is_made {
            home::make(guest, &home, uid, gid)?;
        }
        if self.purpose() == Purpose::Person {
            home::make_mailbox(guest, &defaults, &self.name, uid, gid)?;
        }
        Ok(())
    }

    fn new_uid(&self, guest: &Guest, defaults: &Defaults) -> Result<u32> {
        let used = ids::used(guest, IdKind::User)?;
        match self.uid {
            Some(uid) if used.contains(&uid) => {
                Err(guest.invalid(format!("the user ID {uid} is in use by another user")))
            }
            Some(uid) => Ok(uid),
            None => {
                let range = ids::range(defaults, IdKind::User, self.purpose());
                let free = ids::free(&used, &range, self.purpose());
                free.ok_or_else(|| guest.invalid("no free user ID is left in the guest"))
            }
        }
    }

    /// Returns the primary group: the given one, or the user's own group, whose ID is the user ID
    /// if that is free, or the guest's common group.
    fn first_group(&self, guest: &mut Guest, defaults: &Defaults, uid: u32) -> Result<u32> {
        if let Some(gid) = self.gid {
            if groups::name_of(&guest.stage, gid)?.is_some() {
                return Ok(gid);
            }
            if accounts::gid_of(&guest.stage, &self.name)?.is_some() {
                return Err(guest.invalid(format!("no such group: {gid}")));
            }
            groups::add(guest, &self.name, gid)?;
            return Ok(gid);
        }
        if let Some(gid) = accounts::gid_of(&guest.stage, &self.name)? {
            return Ok(gid);
        }
        // Without login.defs there is no useradd. Then the default of busybox's adduser (yes) is
        // better than useradd's own (no).
        if !defaults.is_yes("USERGROUPS_ENAB").unwrap_or(true) {
            return common_group(guest, defaults);
        }
        let used = ids::used(guest, IdKind::Group)?;
        let range = ids::range(defaults, IdKind::Group, self.purpose());
        let gid = if used.contains(&uid) {
            ids::free(&used, &range, self.purpose())
        } else {
            Some(uid)
        };
        let gid = gid.ok_or_else(|| guest.invalid("no free group ID is left in the guest"))?;
        groups::add(guest, &self.name, gid)?;
        Ok(gid)
    }

    fn new_shell(&self, guest: &mut Guest, defaults: &Defaults) -> Result<String> {
        match (&self.shell, defaults.useradd("SHELL")) {
            (Some(shell), _) => shell_of(guest, shell),
            // A shell from the guest's own defaults needs no note.
            (None, Some(shell)) if guest.stage.exists(shell)? => Ok(shell.to_owned()),
            (None, _) => Ok(SH.to_owned()),
        }
    }

    fn add_lines(
        &self,
        guest: &mut Guest,
        defaults: &Defaults,
        (uid, gid): (u32, u32),
        home: &str,
        shell: &str,
    ) -> Result<()> {
        let comment = self.comment.as_deref().unwrap_or_default();
        let shadow = Table::read(&guest.stage, SHADOW)?;
        let hash = if shadow.is_some() { "x" } else { "!" };
        let (uid, gid) = (uid.to_string(), gid.to_string());
        let line = [&*self.name, hash, &uid, &gid, comment, home, shell];
        let Some(mut passwd) = Table::read(&guest.stage, PASSWD)? else {
            return Err(guest.invalid("missing /etc/passwd in the guest"));
        };
        if !line.iter().all(|field| accounts::is_field(field)) {
            return Err(guest.invalid(
                "invalid user defaults in the guest: a value contains a colon or a line break",
            ));
        }
        passwd.add(&line);
        passwd.write(&mut guest.stage)?;
        if let Some(mut shadow) = shadow {
            let ages = self.ages(defaults);
            let today = accounts::today(guest).to_string();
            let [min, max, warn] = ages.each_ref().map(String::as_str);
            let (inactive, expire) = (number(defaults, "INACTIVE"), date(defaults));
            // A line that a former user of that name left would come first and take effect.
            if shadow.row(&self.name).is_none() {
                shadow.add(&[
                    &*self.name,
                    "!",
                    &today,
                    min,
                    max,
                    warn,
                    &inactive,
                    &expire,
                    "",
                ]);
                shadow.write(&mut guest.stage)?;
            } else {
                let user = &self.name;
                guest.note(format!(
                    "/etc/shadow already had a line for `{user}`, which was kept"
                ));
            }
        }
        Ok(())
    }

    /// Returns the password ages in days: the minimum, the maximum and the warning period. They are
    /// empty for system users.
    fn ages(&self, defaults: &Defaults) -> [String; 3] {
        ["PASS_MIN_DAYS", "PASS_MAX_DAYS", "PASS_WARN_AGE"].map(|key| {
            let days = defaults.number(key);
            let days = days.filter(|_| self.purpose() == Purpose::Person);
            days.map(|days| days.to_string()).unwrap_or_default()
        })
    }

    /// Adds subordinate IDs (for containers) for people whose user ID is in the range for people.
    fn add_subordinates(&self, guest: &mut Guest, defaults: &Defaults, uid: u32) -> Result<()> {
        let people = ids::range(defaults, IdKind::User, Purpose::Person);
        if self.purpose() == Purpose::Person && people.contains(&uid) {
            ids::add_subordinate(guest, defaults, IdKind::User, &self.name)?;
            ids::add_subordinate(guest, defaults, IdKind::Group, &self.name)?;
        }
        Ok(())
    }
}

/// Returns the common group of users, from `GROUP` in `/etc/default/useradd`: an ID or a name.
fn common_group(guest: &Guest, defaults: &Defaults) -> Result<u32> {
    let Some(group) = defaults.useradd("GROUP") else {
        return Ok(USERS);
    };
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let gid = accounts::gid_of(&guest.stage, group)?;
    gid.ok_or_else(|| {
        guest.invalid(format!(
            "no such group: `{group}` (in {GROUP}, named in /etc/default/useradd)"
        ))
    })
}

/// Returns a number of `/etc/default/useradd` that is not negative.
fn number(defaults: &Defaults, key: &str) -> String {
    let value: Option<u32> = defaults.useradd(key).and_then(|value| value.parse().ok());
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Returns `EXPIRE` of `/etc/default/useradd` in days since 1970. A value in the form of a date is
/// ignored.
fn date(defaults: &Defaults) -> String {
    number(defaults, "EXPIRE")
}
