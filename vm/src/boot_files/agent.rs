//! The agent: the first and only program of the machine.

use std::io::Read;
use std::path::Path;

use super::Appliance;
use super::install::install;
use diskfs_disk::{Error, ErrorKind, Result};

/// The name of the agent's file in the appliance.
const NAME: &str = "diskfs-agent";

/// The place of the agent after a build from a checkout, from the directory of the program.
const IN_CHECKOUT: &str = "../x86_64-unknown-linux-gnu/agent/diskfs-agent";

/// The agent that is built into this library (`build.rs`), compressed by gzip; empty if none is.
const BUILT_IN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.gz"));

impl Appliance {
    /// Returns the agent for building appliances: the one in the file `given`, else the one that is
    /// built into this program, else a file beside the program or in the appliance.
    ///
    /// # Errors
    /// Fails with `NotFound`; the message names the directories that were searched. Fails with
    /// `Invalid` if the agent is not a static program.
    pub(crate) fn agent(&self, given: Option<&Path>) -> Result<Vec<u8>> {
        match given {
            Some(file) => static_agent(file),
            None => match built_in()? {
                agent if agent.is_empty() => self.found_agent(),
                agent => check_agent(&agent).map(|()| agent),
            },
        }
    }

    /// Reads the first static agent beside the program or in the appliance. Beside a program that
    /// was built for tests there may be one with libraries.
    fn found_agent(&self) -> Result<Vec<u8>> {
        let program = std::env::current_exe().ok();
        let dir = program.as_deref().and_then(Path::parent);
        let beside = [NAME, IN_CHECKOUT].map(|name| Some(dir?.join(name)));
        let in_appliance = self.places().iter().map(|place| place.join(NAME));
        let mut all = beside.into_iter().flatten().chain(in_appliance);
        all.find_map(|file| static_agent(&file).ok())
            .ok_or_else(|| {
                let missing = self.missing("missing agent (diskfs-agent)");
                let hint = "name it with --agent; a program that was built with `cargo install` or \
                            `cargo build --release` contains it";
                Error::new(ErrorKind::NotFound, missing.reason()).with_hint(hint)
            })
    }
}

/// Unpacks the agent that is built into this library.
fn built_in() -> Result<Vec<u8>> {
    let mut agent = Vec::new();
    flate2::read::GzDecoder::new(BUILT_IN).read_to_end(&mut agent)?;
    Ok(agent)
}

/// Reads the agent.
fn static_agent(file: &Path) -> Result<Vec<u8>> {
    let agent = std::fs::read(file).map_err(|e| Error::from(e).in_file(file))?;
    check_agent(&agent).map_err(|e| e.in_file(file))?;
    Ok(agent)
}

/// Installs the agent next to the file that was built with it: a later build finds out whether it
/// is the same.
pub(crate) fn install_agent(agent: &[u8], built: &Path) -> Result<()> {
    install(&built.with_file_name(NAME), agent, 0o755)
}

/// Returns true if the files in this directory of an appliance were built with that agent, or if
/// the directory does not say so.
pub(crate) fn is_built_with(dir: &Path, agent: &[u8]) -> bool {
    std::fs::read(dir.join(NAME)).map_or(true, |installed| installed == agent)
}

/// Checks that the agent is a static program: the initramfs has no libraries.
fn check_agent(agent: &[u8]) -> Result<()> {
    let invalid = |reason: &str| Err(Error::new(ErrorKind::Invalid, reason));
    if !agent.starts_with(b"\x7fELF") {
        return invalid("the agent is not an ELF program");
    }
    // A dynamic program contains the path of its interpreter (ELF, `PT_INTERP`).
    let dynamic = agent.windows(15).any(|bytes| bytes == b"/lib64/ld-linux");
    if dynamic {
        return invalid("the agent is not a static program");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_static() {
        check_agent(b"\x7fELF and so on").unwrap();
        assert!(check_agent(b"#!/bin/sh").is_err());
        assert!(check_agent(b"\x7fELF /lib64/ld-linux-x86-64.so.2").is_err());
    }

    #[test]
    fn another_agent_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_built_with(dir.path(), b"agent"));
        install_agent(b"agent", &dir.path().join("uml")).unwrap();
        assert!(is_built_with(dir.path(), b"agent"));
        assert!(!is_built_with(dir.path(), b"newer agent"));
    }
}
