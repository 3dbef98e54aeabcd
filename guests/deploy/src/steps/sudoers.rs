//! The step `sudoers`, and the sudo rights of a user: sudoers(5).

use diskfs_etc::sudoers::{self, Item};
use serde::{Deserialize, Serialize};

use super::super::accounts::{self, groups};
use super::super::guest::Guest;
use super::user::Sudo;
use diskfs_disk::Result;

const DIR: &str = "/etc/sudoers.d";

/// The mode that sudo requires for its files.
const MODE: u16 = 0o440;

/// The groups with full sudo rights on most guests: on Debian, and on others.
const GROUPS: [&str; 2] = ["sudo", "wheel"];

/// A file with rules of sudoers(5). It gets the mode 0440.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sudoers {
    /// The file name. sudo ignores names that contain a dot or end with `~`.
    pub name: String,
    /// The contents of the file.
    pub text: String,
}

impl Sudoers {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        if !sudoers::is_read(&self.name) {
            let reason = format!(
                "invalid file name `{}`: sudo ignores files whose names contain a dot or end \
                 with `~`",
                self.name.escape_debug()
            );
            return Err(guest.invalid(reason));
        }
        let mut text = self.text.clone();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        write(guest, &self.name, &text)
    }
}

/// Gives a user the right to run all commands as root, or removes the file that gave it.
pub(super) fn set(guest: &mut Guest, user: &str, sudo: Sudo) -> Result<()> {
    let name = format!("90-{user}");
    let tag = match sudo {
        Sudo::No => return guest.stage.remove(&format!("{DIR}/{name}")),
        Sudo::Password => "",
        Sudo::NoPassword => "NOPASSWD: ",
    };
    if guest.stage.is_dir(DIR)? && accounts::is_name(user) && !user.ends_with('$') {
        return write(guest, &name, &format!("{user} ALL=(ALL:ALL) {tag}ALL\n"));
    }
    for group in GROUPS {
        if accounts::gid_of(&guest.stage, group)?.is_some() {
            groups::add_member(guest, group, user)?;
            guest.note(format!(
                "`{user}` was added to the group {group}, because {DIR} cannot be used"
            ));
            return Ok(());
        }
    }
    let reason = format!(
        "cannot give `{user}` sudo rights: the guest has neither {DIR} nor a group sudo or wheel"
    );
    Err(guest.invalid(reason))
}

fn write(guest: &mut Guest, name: &str, text: &str) -> Result<()> {
    let main = guest.stage.text(sudoers::PATH)?.unwrap_or_default();
    let is_it = |item| matches!(item, Item::IncludeDir(dir) if dir.trim_end_matches('/') == DIR);
    if !sudoers::items(&main).any(|(_, item)| is_it(item)) {
        guest.note(format!(
            "{} does not include {DIR}: the file has no effect",
            sudoers::PATH
        ));
    }
    guest.stage.make_dirs(DIR, 0o750)?;
    let path = format!("{DIR}/{name}");
    guest.stage.write_text(&path, text)?;
    guest.stage.set_permissions(&path, MODE)
}

#[cfg(test)]
mod tests {

    use diskfs_fixtures::require;

    use super::super::testing::{after, apply, attributes, guest, text};

    const GUEST: &str = "-- /etc/passwd --\nroot:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n\
        -- /etc/group --\nroot:x:0:\n-- /etc/sudoers --\n@includedir /etc/sudoers.d\n-- /etc/sudoers.d/README --\n";

    #[test]
    fn files_have_the_mode_that_sudo_wants() {
        let guest = after(
            GUEST,
            "- sudoers: {name: ops, text: \"%ops ALL=(ALL) ALL\"}",
        );
        assert_eq!(text(&guest, "/etc/sudoers.d/ops"), "%ops ALL=(ALL) ALL\n");
        assert_eq!(attributes(&guest, "/etc/sudoers.d/ops"), "0440 0:0");
        assert_eq!(attributes(&guest, "/etc/sudoers.d"), "0755 0:0");
    }

    #[test]
    fn names_that_sudo_skips_are_refused() {
        for name in ["a.b", "a~", "../x", ""] {
            let step = format!("- sudoers: {{name: \"{name}\", text: x}}");
            assert!(apply(&mut guest(GUEST), &step).is_err(), "{name}");
        }
    }

    #[test]
    fn users_come_and_go() {
        let given = after(GUEST, "- user: {name: ann, sudo: nopasswd}");
        let line = "ann ALL=(ALL:ALL) NOPASSWD: ALL\n";
        assert_eq!(text(&given, "/etc/sudoers.d/90-ann"), line);
        let had = format!("{GUEST}-- /etc/sudoers.d/90-ann --\n{line}");
        let taken = after(&had, "- user: {name: ann, sudo: false}");
        assert_eq!(attributes(&taken, "/etc/sudoers.d/90-ann"), "-");
    }

    #[test]
    fn visudo_takes_it() {
        if require("visudo").is_none() {
            return;
        }
        let guest = after(GUEST, "- user: {name: ann, sudo: nopasswd}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text(&guest, "/etc/sudoers.d/90-ann")).unwrap();
        let mut visudo = diskfs_fixtures::command("visudo");
        let status = visudo.args(["-c", "-f"]).arg(file.path()).status().unwrap();
        assert!(status.success());
    }
}
