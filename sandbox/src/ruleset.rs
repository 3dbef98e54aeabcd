//! Landlock rulesets: which files of the host a process can reach.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, path_beneath_rules,
};

pub use landlock::RulesetError as RulesError;

/// The version of Landlock's rights; rights that the host's kernel does not know are left out.
const LANDLOCK_ABI: ABI = ABI::V6;

/// The files of the host that a process may use. Paths that do not exist are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFiles {
    /// Files, and directories with everything below them, that may be read.
    pub read: Vec<PathBuf>,
    /// Files and directories that may be read and executed.
    pub execute: Vec<PathBuf>,
    /// Files and directories that may be read and changed.
    pub write: Vec<PathBuf>,
    /// Files and directories that may be read, changed and executed.
    pub write_and_execute: Vec<PathBuf>,
}

/// The network that a process may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Network {
    /// No TCP.
    #[default]
    None,
    /// Whatever the process could use before the confinement.
    Kept,
}

/// A Landlock ruleset that is ready to be enforced.
#[derive(Debug)]
pub struct FileRules(RulesetCreated);

impl FileRules {
    /// Creates the ruleset for `files`. Nothing else of the host can be opened. TCP is refused
    /// unless `network` keeps it, and so are signals to processes outside and connections to their
    /// abstract sockets, as far as the host's kernel supports that.
    ///
    /// # Errors
    /// Fails if the kernel refuses to create the ruleset. A kernel without Landlock is not an
    /// error.
    pub fn new(files: &HostFiles, network: Network) -> Result<Self, RulesError> {
        let all = AccessFs::from_all(LANDLOCK_ABI);
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?;
        if network == Network::None {
            rules = rules.handle_access(AccessNet::from_all(LANDLOCK_ABI))?;
        }
        let rules = rules
            .scope(Scope::from_all(LANDLOCK_ABI))?
            .create()?
            .add_rules(path_beneath_rules(&files.read, read()))?
            .add_rules(path_beneath_rules(
                &files.execute,
                read() | AccessFs::Execute,
            ))?
            .add_rules(path_beneath_rules(&files.write, all & !AccessFs::Execute))?
            .add_rules(path_beneath_rules(&files.write_and_execute, all))?;
        Ok(Self(rules))
    }

    /// Enforces the ruleset in this thread, and in all threads and processes that it starts later.
    /// Returns the Landlock version that is in effect; 0 if the host has none. Allocates no memory,
    /// so that it can run between fork and exec.
    ///
    /// # Errors
    /// Fails if the kernel refuses the ruleset, for example without `no_new_privs`.
    pub fn enforce(self) -> Result<u32, RulesError> {
        let status = self.0.restrict_self()?;
        Ok(match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => version(effective_abi),
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
        })
    }
}

fn read() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn version(abi: ABI) -> u32 {
    match abi {
        ABI::Unsupported => 0,
        ABI::V1 => 1,
        ABI::V2 => 2,
        ABI::V3 => 3,
        ABI::V4 => 4,
        ABI::V5 => 5,
        _ => 6,
    }
}
