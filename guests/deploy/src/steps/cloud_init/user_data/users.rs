//! The key `users`, and the keys for passwords and SSH login.

use serde_json::{Map, Value};

use super::super::super::super::accounts;
use super::super::super::super::guest::Guest;
use super::super::super::password::{Password, Selector};
use super::super::super::ssh_key::SshKey;
use super::super::super::sshd::Sshd;
use super::super::super::sudoers::Sudoers;
use super::super::super::user::User;
use super::{note_ignored, value};
use diskfs_disk::Result;

pub(super) fn apply(guest: &mut Guest, config: &mut Map<String, Value>) -> Result<()> {
    for user in value::take_list(config, "users") {
        put(guest, user)?;
    }
    let default = match value::take(config, "user") {
        Some(user) => Some(put(guest, user)?),
        None => None,
    };
    // The settings of the default user are applied to root: all guests have no other user in
    // common.
    let default = default.flatten().unwrap_or_else(|| "root".to_owned());
    let keys = value::take_lines(config, "ssh_authorized_keys");
    let password = value::take_text(config, "password");
    if !keys.is_empty() || password.is_some() {
        guest.note(format!(
            "user data: settings of the default user were applied to {default}"
        ));
    }
    if !keys.is_empty() {
        SshKey {
            user: default.clone(),
            keys,
            remove: Vec::new(),
            remove_comments: Vec::new(),
            exclusive: false,
        }
        .apply(guest)?;
    }
    let changes = match value::take(config, "chpasswd") {
        Some(Value::Object(changes)) => changes,
        _ => Map::new(),
    };
    change_passwords(guest, &default, password, changes)?;
    // The value `unchanged` is neither true nor false.
    let password_authentication = value::take_flag(config, "ssh_pwauth");
    if password_authentication.is_none() {
        return Ok(());
    }
    Sshd {
        permit_root_login: None,
        password_authentication,
        port: None,
        options: std::collections::BTreeMap::new(),
    }
    .apply(guest)
}

/// Applies an entry of `users`. Returns the user's name.
fn put(guest: &mut Guest, user: Value) -> Result<Option<String>> {
    let mut user = match user {
        Value::String(name) if name == "default" => {
            note_ignored(guest, "the default user of cloud-init");
            return Ok(None);
        }
        Value::String(name) => Map::from_iter([("name".to_owned(), Value::String(name))]),
        Value::Object(user) => user,
        _ => {
            return Err(
                guest.invalid("user data: invalid entry of users: expected a name or a map")
            );
        }
    };
    let name = name_of(guest, &mut user)?;
    let groups = value::take(&mut user, "groups");
    User {
        name: name.clone(),
        password: password(guest, &name, &mut user),
        groups: known_groups(guest, &name, groups.as_ref())?,
        uid: value::take_text(&mut user, "uid").and_then(|uid| uid.parse().ok()),
        gid: None,
        home: value::take_text(&mut user, "homedir"),
        shell: value::take_text(&mut user, "shell"),
        comment: value::take_text(&mut user, "gecos"),
        system: value::take_flag(&mut user, "system"),
        sudo: None,
        ssh_keys: value::take_lines(&mut user, "ssh_authorized_keys"),
        never_expires: false,
        create: true,
    }
    .apply(guest)?;
    let rules = value::take_lines(&mut user, "sudo");
    let rules: Vec<String> = rules.iter().map(|rule| format!("{name} {rule}")).collect();
    // `false` gives no rule.
    if !rules.is_empty() {
        let text = rules.join("\n");
        let name = format!("90-cloud-init-{name}");
        Sudoers { name, text }.apply(guest)?;
    }
    for key in user.keys() {
        note_ignored(guest, &format!("`{key}` of the user {name}"));
    }
    Ok(Some(name))
}

fn name_of(guest: &Guest, user: &mut Map<String, Value>) -> Result<String> {
    let name = value::take_text(user, "name");
    name.ok_or_else(|| guest.invalid("user data: missing key `name` of an entry of users"))
}

/// Returns the password, unless it is locked.
fn password(guest: &mut Guest, name: &str, user: &mut Map<String, Value>) -> Option<Selector> {
    let [hashed, hash, text] =
        ["hashed_passwd", "passwd", "plain_text_passwd"].map(|key| value::take_text(user, key));
    let hash = hashed.or(hash);
    let is_locked = value::take_flag(user, "lock_passwd") != Some(false);
    if hash.is_none() && text.is_none() {
        return None;
    }
    if is_locked {
        let what = format!("the password of {name}, which is locked without `lock_passwd: false`,");
        note_ignored(guest, &what);
        return None;
    }
    Some(Selector::Detailed(Password {
        text: text.filter(|_| hash.is_none()),
        hash,
        ..Password::default()
    }))
}

/// Returns those of the groups that exist in the guest.
fn known_groups(guest: &mut Guest, user: &str, groups: Option<&Value>) -> Result<Vec<String>> {
    let names = match groups {
        Some(Value::Object(groups)) => groups.keys().cloned().collect(),
        Some(groups) => value::texts(groups),
        None => Vec::new(),
    };
    let mut known = Vec::new();
    for name in names {
        if accounts::gid_of(&guest.stage, &name)?.is_some() {
            known.push(name);
        } else {
            let what = format!("the group {name} of {user}, which the guest does not have,");
            note_ignored(guest, &what);
        }
    }
    Ok(known)
}

/// Applies `password`, and `chpasswd` with its lines in `list` or its entries in `users`.
fn change_passwords(
    guest: &mut Guest,
    default: &str,
    password: Option<String>,
    mut wanted: Map<String, Value>,
) -> Result<()> {
    // The default is that of cloud-init.
    let expire = value::take_flag(&mut wanted, "expire").unwrap_or(true);
    if let Some(password) = password {
        change(guest, default, &password, is_hash(&password), expire)?;
    }
    for lines in value::take_lines(&mut wanted, "list") {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((name, password)) = line.split_once(':') else {
                return Err(
                    guest.invalid("user data: invalid line of chpasswd: expected NAME:PASSWORD")
                );
            };
            change(guest, name, password, is_hash(password), expire)?;
        }
    }
    for user in value::take_list(&mut wanted, "users") {
        let Value::Object(mut user) = user else {
            return Err(
                guest.invalid("user data: invalid entry of users in chpasswd: expected a map")
            );
        };
        let name = name_of(guest, &mut user)?;
        let kind = value::take_text(&mut user, "type").unwrap_or_else(|| "hash".to_owned());
        let password = value::take_text(&mut user, "password").unwrap_or_default();
        let password = if kind == "RANDOM" { "R" } else { &password };
        change(guest, &name, password, kind == "hash", expire)?;
    }
    for key in wanted.keys() {
        note_ignored(guest, &format!("`{key}` of chpasswd"));
    }
    Ok(())
}

/// Returns true if a password is a hash. A hash begins with `$` (crypt(5)).
fn is_hash(password: &str) -> bool {
    password.starts_with('$')
}

/// Sets a password. `R` and `RANDOM` stand for a random password.
fn change(
    guest: &mut Guest,
    user: &str,
    password: &str,
    is_hash: bool,
    expire: bool,
) -> Result<()> {
    let is_random = matches!(password, "R" | "RANDOM");
    let given = |is_it: bool| (is_it && !is_random).then(|| password.to_owned());
    Password {
        user: Some(user.to_owned()),
        hash: given(is_hash),
        text: given(!is_hash),
        random: is_random,
        expire,
        ..Password::default()
    }
    .apply(guest)
}
