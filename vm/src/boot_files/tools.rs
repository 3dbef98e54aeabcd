//! Helpers for running other programs.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use diskfs_disk::{Error, ErrorKind, Result};

/// The directories that are searched besides `PATH`, as in root's shell.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the path of a program, as root's shell would find it.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH").unwrap_or_default(), name)
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    // An ordinary user has no sbin in PATH, but the filesystem programs are there.
    let dirs = std::env::split_paths(path).chain(SBIN.map(PathBuf::from));
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The number of output lines of a failed program that an error quotes.
const SAID_LINES: usize = 12;

/// Runs a program whose output matters only if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    output_of(command).map(drop)
}

/// Runs a program and returns its standard output.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e: std::io::Error| Error::from(e).in_file(&name))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let lines: Vec<&str> = printed
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines
        .get(lines.len().saturating_sub(SAID_LINES)..)
        .unwrap_or_default();
    let reason = format!("{name} failed ({}):\n{}", output.status, last.join("\n"));
    Err(Error::new(ErrorKind::Other, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_users_path_is_enough() {
        let found = find_in(OsStr::new("/usr/games"), "ldconfig");
        assert!(found.is_some_and(|file| file.to_string_lossy().contains("sbin/ldconfig")));
        assert!(find_in(OsStr::new(""), "no-such-program").is_none());
    }

    #[test]
    fn a_failed_program_is_quoted() {
        let error = run(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 7"]));
        let reason = error.unwrap_err().reason();
        assert!(reason.contains("one") && reason.contains("two"), "{reason}");
        assert!(run(&mut Command::new("/no/such/program")).is_err());
    }
}
