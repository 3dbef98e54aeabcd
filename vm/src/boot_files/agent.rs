//! The agent: the first and only program of the machine.

use std::path::{Path, PathBuf};

use super::Appliance;
use super::install::install;
use diskfs_disk::{Error, ErrorKind, Result};

/// The name of the agent's file in the appliance.
const NAME: &str = "diskfs-agent";

impl Appliance {
    /// Returns the agent for building appliances: from the appliance, or next to the program.
    ///
    /// # Errors
    /// Fails with `NotFound`; the message names the directories that were searched.
    pub fn agent(&self) -> Result<PathBuf> {
        let program = std::env::current_exe().ok();
        let beside = program.and_then(|program| Some(program.parent()?.join(NAME)));
        let beside = beside.filter(|file| file.is_file());
        self.file(NAME).or(beside).ok_or_else(|| {
            let missing = self.missing("missing agent (diskfs-agent)");
            let hint = "name it with --agent, or build it as in packaging/appliance/README.md";
            Error::new(ErrorKind::NotFound, missing.reason()).with_hint(hint)
        })
    }
}

/// Reads the agent.
///
/// # Errors
/// Fails with `Invalid` if the file is not a static program.
pub(crate) fn static_agent(file: &Path) -> Result<Vec<u8>> {
    let agent = std::fs::read(file).map_err(|e| Error::from(e).in_file(file))?;
    check_agent(&agent).map_err(|e| e.in_file(file))?;
    Ok(agent)
}

/// Installs the agent next to the file that was built with it: guest kernels need it, too.
pub(crate) fn install_agent(agent: &[u8], built: &Path) -> Result<()> {
    install(&built.with_file_name(NAME), agent, 0o755)
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
}
