//! The environment in which a program of the guest is run.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use clap::Args;

use diskfs::vfs::FileType;
use diskfs::vm::{Program, User};
use diskfs::{Error, ErrorKind, Filesystem, Result};

use crate::cli::show::name::message;
use crate::cli::show::owners::{Login, Numeric, Owners};

/// The search path for programs, which is root's in common distributions.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The directories that the machine mounts over those of the guest.
const MACHINE_DIRS: [&[u8]; 4] = [b"/dev", b"/proc", b"/run", b"/sys"];

#[derive(Debug, Args)]
pub(super) struct ProgramArgs {
    /// Set an environment variable of the program; can be repeated
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<OsString>,

    /// The working directory of the program in the guest
    #[arg(short, long, value_name = "DIR", default_value = "/")]
    workdir: OsString,

    /// Run the program as USER or USER:GROUP, by the guest's names or by number [default: root]
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
}

fn variable(text: &str) -> std::result::Result<OsString, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.into()),
        _ => Err(format!("invalid variable `{text}`; write NAME=VALUE")),
    }
}

impl ProgramArgs {
    /// Returns the program with its environment. Little is passed on from the environment of
    /// diskfs, since the guest is another system.
    pub(super) fn program(&self, guest: &Filesystem, words: &[OsString]) -> Result<Program> {
        let login = self.login(guest)?;
        let terminal = std::env::var_os("TERM").map(|term| [b"TERM=", term.as_bytes()].concat());
        let mut environment = vec![
            PATH.into(),
            format!("HOME={}", login.home).into(),
            format!("USER={}", login.name).into(),
            format!("LOGNAME={}", login.name).into(),
            format!("SHELL={}", login.shell).into(),
        ];
        environment.extend(terminal);
        environment.extend(self.env.iter().map(|line| line.clone().into_vec()));
        Ok(Program {
            words: words.iter().map(|word| word.clone().into_vec()).collect(),
            environment,
            directory: self.workdir.clone().into_vec(),
            user: User {
                uid: login.uid,
                gid: login.gid,
                groups: login.groups,
            },
            terminal: None,
        })
    }

    /// Checks that the working directory exists.
    ///
    /// # Errors
    /// Fails with `NotFound` or `NotADirectory`; the message names the directory.
    pub(super) fn check_directory(&self, guest: &Filesystem) -> Result<()> {
        let directory = self.workdir.as_bytes();
        let shown = message(&String::from_utf8_lossy(directory));
        let reason = match guest.metadata(directory) {
            Ok(metadata) if metadata.file_type == FileType::Directory => return Ok(()),
            // Mount points of the machine itself may be missing in the image.
            _ if MACHINE_DIRS.iter().any(|dir| directory.starts_with(dir)) => return Ok(()),
            Ok(_) => format!("the working directory `{shown}` is not a directory in the guest"),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                format!("the working directory `{shown}` does not exist in the guest")
            }
            Err(error) => return Err(error),
        };
        let hint = "name another one with --workdir";
        Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
    }

    fn login(&self, guest: &Filesystem) -> Result<Login> {
        let Some(names) = &self.user else {
            return Ok(nobody_known("root", 0));
        };
        let owners = Owners::new(guest, Numeric::No);
        let (user, group) = match names.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (names.as_str(), None),
        };
        let unknown = |what: &str, name: &str| {
            Error::new(ErrorKind::NotFound, format!("no such {what}: `{name}`"))
        };
        let known = owners.login(user);
        let by_number = || Some(nobody_known(user, user.parse().ok()?));
        let login = known.or_else(by_number);
        let login = login.ok_or_else(|| unknown("user", user))?;
        match group {
            None => Ok(login),
            Some(group) => Ok(Login {
                gid: owners.gid(group).ok_or_else(|| unknown("group", group))?,
                groups: Vec::new(),
                ..login
            }),
        }
    }
}

/// Returns defaults for a user whom the guest's /etc/passwd does not list.
fn nobody_known(name: &str, uid: u32) -> Login {
    Login {
        name: name.to_owned(),
        uid,
        gid: uid,
        groups: Vec::new(),
        home: if uid == 0 { "/root" } else { "/" }.to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_names() {
        assert_eq!(variable("A=b=c"), Ok("A=b=c".into()));
        assert_eq!(variable("A="), Ok("A=".into()));
        assert!(variable("=b").is_err() && variable("A").is_err());
    }
}
