//! The agent: the program that runs first, and alone, in the machine.

use std::path::{Path, PathBuf};

use super::Appliance;
use super::install::install;
use diskfs_disk::{Error, ErrorKind, Result};

/// Its name, where the appliance is looked for.
const NAME: &str = "diskfs-agent";

impl Appliance {
    /// The agent, to build appliances with: in the appliance, or next to the program.
    ///
    /// # Errors
    /// `NotFound` with where it was looked for.
    pub fn agent(&self) -> Result<PathBuf> {
        let program = std::env::current_exe().ok();
        let beside = program.and_then(|program| Some(program.parent()?.join(NAME)));
        let beside = beside.filter(|file| file.is_file());
        self.file(NAME).or(beside).ok_or_else(|| {
            let missing = self.missing("no agent (diskfs-agent)");
            let hint = "name it with --agent, or build one: packaging/appliance/README.md says how";
            Error::new(ErrorKind::NotFound, missing.reason()).with_hint(hint)
        })
    }
}

/// Reads the agent.
///
/// # Errors
/// `Invalid` for what can't run where there is nothing else.
pub(crate) fn static_agent(file: &Path) -> Result<Vec<u8>> {
    let agent = std::fs::read(file).map_err(|e| Error::from(e).in_file(file))?;
    check_agent(&agent).map_err(|e| e.in_file(file))?;
    Ok(agent)
}

/// Keeps the agent next to what was built with it: other kernels take it, too.
pub(crate) fn install_agent(agent: &[u8], built: &Path) -> Result<()> {
    install(&built.with_file_name(NAME), agent, 0o755)
}

/// The agent runs where there is nothing else: it must bring all of itself.
fn check_agent(agent: &[u8]) -> Result<()> {
    let invalid = |reason: &str| Err(Error::new(ErrorKind::Invalid, reason));
    if !agent.starts_with(b"\x7fELF") {
        return invalid("the agent is no program");
    }
    // An interpreter is named by its path (ELF, `PT_INTERP`), which a static program has not.
    let dynamic = agent.windows(15).any(|bytes| bytes == b"/lib64/ld-linux");
    if dynamic {
        return invalid("the agent is not static");
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
