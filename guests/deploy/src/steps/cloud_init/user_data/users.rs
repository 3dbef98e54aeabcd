//! `users`, and what lets them in.

use serde_json::{Map, Value};

use super::super::super::super::accounts;
use super::super::super::super::guest::Guest;
use super::super::super::password::{Password, Selector};
use super::super::super::ssh_key::SshKey;
use super::super::super::sshd::Sshd;
use super::super::super::sudoers::Sudoers;
use super::super::super::user::User;
use super::{left_out, value};
use diskfs_disk::Result;

pub(super) fn apply(guest: &mut Guest, config: &mut Map<String, Value>) -> Result<()> {
    for user in value::take_list(config, "users") {
        put(guest, user)?;
    }
    let default = match value::take(config, "user") {
        Some(user) => Some(put(guest, user)?),
        None => None,
    };
    // What is said of the default user is root's: there is no other that all guests have.
    let default = default.flatten().unwrap_or_else(|| "root".to_owned());
    let keys = value::take_lines(config, "ssh_authorized_keys");
    let password = value::take_text(config, "password");
    if !keys.is_empty() || password.is_some() {
        guest.note(format!(
            "user data: the default user is taken to be {default}"
        ));
    }
    if !keys.is_empty() {
        SshKey {
            user: default.clone(),
            keys,
            remove: Vec::new(),
            exclusive: false,
        }
        .apply(guest)?;
    }
    let changes = match value::take(config, "chpasswd") {
        Some(Value::Object(changes)) => changes,
        _ => Map::new(),
    };
    change_passwords(guest, &default, password, changes)?;
    // `unchanged` is neither.
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

/// One of `users`. Returns the name.
fn put(guest: &mut Guest, user: Value) -> Result<Option<String>> {
    let mut user = match user {
        Value::String(name) if name == "default" => {
            left_out(
                guest,
                "the default user, whom only cloud-init's own settings name,",
            );
            return Ok(None);
        }
        Value::String(name) => Map::from_iter([("name".to_owned(), Value::String(name))]),
        Value::Object(user) => user,
        _ => return Err(guest.invalid("user data: one of users is no user")),
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
        create: true,
    }
    .apply(guest)?;
    let rules = value::take_lines(&mut user, "sudo");
    let rules: Vec<String> = rules.iter().map(|rule| format!("{name} {rule}")).collect();
    // `false` is no rule.
    if !rules.is_empty() {
        let text = rules.join("\n");
        let name = format!("90-cloud-init-{name}");
        Sudoers { name, text }.apply(guest)?;
    }
    for key in user.keys() {
        left_out(guest, &format!("`{key}` of the user {name}"));
    }
    Ok(Some(name))
}

fn name_of(guest: &Guest, user: &mut Map<String, Value>) -> Result<String> {
    let name = value::take_text(user, "name");
    name.ok_or_else(|| guest.invalid("user data: one of users has no name"))
}

/// The password, unless the user can't use one.
fn password(guest: &mut Guest, name: &str, user: &mut Map<String, Value>) -> Option<Selector> {
    let [hashed, hash, text] =
        ["hashed_passwd", "passwd", "plain_text_passwd"].map(|key| value::take_text(user, key));
    let hash = hashed.or(hash);
    let is_locked = value::take_flag(user, "lock_passwd") != Some(false);
    if hash.is_none() && text.is_none() {
        return None;
    }
    if is_locked {
        let what = format!("the password of {name}, which `lock_passwd: false` would let in,");
        left_out(guest, &what);
        return None;
    }
    Some(Selector::Detailed(Password {
        text: text.filter(|_| hash.is_none()),
        hash,
        ..Password::default()
    }))
}

/// Those groups that the guest has.
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
            let what = format!("the group {name} of {user}, which the guest hasn't,");
            left_out(guest, &what);
        }
    }
    Ok(known)
}

/// `password`, and `chpasswd` with lines in `list`, or `users` one by one.
fn change_passwords(
    guest: &mut Guest,
    default: &str,
    password: Option<String>,
    mut wanted: Map<String, Value>,
) -> Result<()> {
    // As cloud-init has it where nothing is said.
    let expire = value::take_flag(&mut wanted, "expire").unwrap_or(true);
    if let Some(password) = password {
        change(guest, default, &password, is_hash(&password), expire)?;
    }
    for lines in value::take_lines(&mut wanted, "list") {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((name, password)) = line.split_once(':') else {
                return Err(guest.invalid("user data: a line of chpasswd has no colon"));
            };
            change(guest, name, password, is_hash(password), expire)?;
        }
    }
    for user in value::take_list(&mut wanted, "users") {
        let Value::Object(mut user) = user else {
            return Err(guest.invalid("user data: one of chpasswd's users is no user"));
        };
        let name = name_of(guest, &mut user)?;
        let kind = value::take_text(&mut user, "type").unwrap_or_else(|| "hash".to_owned());
        let password = value::take_text(&mut user, "password").unwrap_or_default();
        let password = if kind == "RANDOM" { "R" } else { &password };
        change(guest, &name, password, kind == "hash", expire)?;
    }
    for key in wanted.keys() {
        left_out(guest, &format!("`{key}` of chpasswd"));
    }
    Ok(())
}

/// A hash begins as crypt(5) says, and a text does not.
fn is_hash(password: &str) -> bool {
    password.starts_with('$')
}

/// `R` and `RANDOM` are made up.
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
