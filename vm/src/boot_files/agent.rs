//! The agent: the first and only program of the machine.

use std::io::Read;
use std::path::Path;

use super::Appliance;
use super::install::install;
use crate::architecture::Architecture;
use diskfs_disk::{Error, ErrorKind, Result};

/// The name of the agent's file in the appliance.
const NAME: &str = "diskfs-agent";

/// The place of the agent after a build from a checkout, from the directory of the program.
const IN_CHECKOUT: &str = if cfg!(target_arch = "aarch64") {
    "../aarch64-unknown-linux-musl/agent/diskfs-agent"
} else {
    "../x86_64-unknown-linux-gnu/agent/diskfs-agent"
};

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

/// Returns the architecture of a kernel.
///
/// # Errors
/// Fails with `Invalid` if the agent is for another architecture, with `Unsupported` if the
/// kernel's architecture is unknown.
pub(crate) fn architecture_for(agent: &[u8], kernel: &[u8]) -> Result<Architecture> {
    let unknown = || Error::new(ErrorKind::Unsupported, "unknown architecture of the kernel");
    let of_kernel = Architecture::of(kernel).ok_or_else(unknown)?;
    if Architecture::of(agent) == Some(of_kernel) {
        return Ok(of_kernel);
    }
    let name = of_kernel.name();
    let reason = format!("the kernel is for {name}, and the agent is not");
    let hint = format!("name an agent for {name} with --agent");
    Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
}

/// Checks that the agent is a static program: the initramfs has no libraries.
fn check_agent(agent: &[u8]) -> Result<()> {
    let invalid = |reason: &str| Err(Error::new(ErrorKind::Invalid, reason));
    if !agent.starts_with(b"\x7fELF") {
        return invalid("the agent is not an ELF program");
    }
    // A dynamic program contains the path of its interpreter (ELF, `PT_INTERP`).
    let interpreters: [&[u8]; 2] = [b"/lib64/ld-linux", b"/lib/ld-"];
    let dynamic = interpreters.iter().any(|name| {
        let mut places = agent.windows(name.len());
        places.any(|bytes| bytes == *name)
    });
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
        assert!(check_agent(b"\x7fELF /lib/ld-linux-aarch64.so.1").is_err());
    }

    #[test]
    fn an_agent_runs_on_its_kernel() {
        let program = |machine: u8| {
            let mut program = b"\x7fELF".to_vec();
            program.resize(64, 0);
            program[18] = machine;
            program
        };
        let (x86_64, aarch64) = (program(62), program(183));
        let architecture = architecture_for(&aarch64, &aarch64).unwrap();
        assert_eq!(architecture, Architecture::Aarch64);
        let error = architecture_for(&x86_64, &aarch64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.reason().contains("aarch64"), "{error}");
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
