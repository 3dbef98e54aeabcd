//! The commands of diskfs and of the host that the shell runs as child processes.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use diskfs::{Error, ErrorKind, Result};

/// The number that is added to that of the signal which has ended a program, as in sh(1).
const SIGNALLED: i32 = 128;

/// The program that runs the commands.
#[derive(Debug)]
pub(super) struct Children {
    pub(super) program: PathBuf,
}

impl Children {
    /// Runs a command of diskfs on the terminal, or with pipes and redirections of the host's shell.
    /// Returns the exit code.
    pub(super) fn run(&self, words: &[OsString], redirection: Option<&str>) -> io::Result<u8> {
        let mut command = match redirection {
            None => Command::new(&self.program),
            Some(redirection) => {
                let mut shell = host(&format!("\"$0\" \"$@\" {redirection}"));
                shell.arg(&self.program);
                shell
            }
        };
        Ok(code(command.args(words).status()?))
    }

    /// Runs a command of diskfs and returns what it prints. It prints its own errors.
    ///
    /// # Errors
    /// Fails if the command does; the message was printed then.
    pub(super) fn output(&self, words: &[OsString]) -> Result<Vec<u8>> {
        let child = Command::new(&self.program)
            .args(words)
            .stderr(Stdio::inherit())
            .output()?;
        if child.status.success() {
            return Ok(child.stdout);
        }
        let name = words
            .first()
            .map(|word| word.to_string_lossy())
            .unwrap_or_default();
        Err(Error::new(ErrorKind::Other, format!("`{name}` failed")))
    }

    /// Runs a command of diskfs silently and returns what it prints, even if it fails.
    pub(super) fn quiet_output(&self, words: &[OsString]) -> Vec<u8> {
        let child = Command::new(&self.program)
            .args(words)
            .stdin(Stdio::null())
            .output();
        child.map(|child| child.stdout).unwrap_or_default()
    }
}

/// Runs a command of the host's shell and returns its exit code.
pub(super) fn run_on_host(script: &str) -> io::Result<u8> {
    Ok(code(host(script).status()?))
}

fn host(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn code(status: ExitStatus) -> u8 {
    let of_signal = || Some(status.signal()?.saturating_add(SIGNALLED));
    let code = status.code().or_else(of_signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
