//! What a machine's process may do on the host: little more than compute.
//!
//! The kernel in it reads bytes that somebody else has made, and may be taken over by them. Then it is a
//! process of this user, and what it can reach is what this module leaves. Each layer is put on where the
//! host allows it; SECURITY.md says what that means.
#![expect(
    unsafe_code,
    reason = "std has no safe way to run anything between fork and exec, where a process confines itself"
)]

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope, path_beneath_rules,
};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getgid, getppid, getuid, set_parent_process_death_signal,
    setrlimit, setsid,
};
use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity, set_no_new_privs, unshare_unsafe};

/// The rights that the rules name; those that the host's kernel does not know are left out.
const LANDLOCK_ABI: ABI = ABI::V6;

/// The user in the machine's namespace, who is nobody outside of it: `nobody` by custom.
const NOBODY: u32 = 65_534;

/// What a machine's process may do.
#[derive(Debug, Clone, Default)]
pub(super) struct Confinement {
    /// Files and directories that it may read and run.
    pub(super) read: Vec<PathBuf>,
    /// Files and directories that it may write.
    pub(super) write: Vec<PathBuf>,
    /// Whether it stays on one processor: where threads take turns, that saves waking up another one.
    pub(super) one_cpu: bool,
    /// Whether it has this process's network.
    pub(super) network: bool,
}

impl Confinement {
    /// Has `command` confine itself before it becomes the program.
    pub(super) fn apply_to(&self, command: &mut Command) {
        let mut before_exec = BeforeExec::new(self);
        // SAFETY: between fork and exec of a process with several threads only what is safe in a signal
        // handler may be done: another thread may have held the allocator's lock. BeforeExec has all it
        // needs from before, and makes system calls only.
        unsafe {
            command.pre_exec(move || before_exec.run());
        }
    }
}

/// What is done in the new process. Nothing in it allocates.
struct BeforeExec {
    parent: Option<Pid>,
    rules: Option<RulesetCreated>,
    cpu: Option<CpuSet>,
    network: bool,
    uid_map: String,
    gid_map: String,
}

impl BeforeExec {
    fn new(confinement: &Confinement) -> Self {
        let rules = match rules(confinement) {
            Ok(rules) => Some(rules),
            Err(error) => {
                tracing::debug!(%error, "no Landlock");
                None
            }
        };
        Self {
            parent: Pid::from_raw(std::process::id().try_into().unwrap_or_default()),
            rules,
            cpu: confinement.one_cpu.then(last_cpu).flatten(),
            network: confinement.network,
            uid_map: format!("{NOBODY} {} 1", getuid().as_raw()),
            gid_map: format!("{NOBODY} {} 1", getgid().as_raw()),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        // Signals of the terminal are for us, who end the machine in order.
        let _ = setsid(); // Fails for the leader of a group only, which a new process is not.
        if let Some(cpu) = &self.cpu {
            let _ = sched_setaffinity(None, cpu); // It only makes it faster.
        }
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        setrlimit(Resource::Core, none)?;
        self.leave_namespaces();
        set_no_new_privs(true)?;
        if let Some(rules) = self.rules.take() {
            let _ = rules.restrict_self(); // Where the kernel has it; it was made for what there is.
        }
        // Last: a change of credentials takes it back.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != self.parent {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe)); // It died before that counted.
        }
        Ok(())
    }

    /// No network (unless it is to have one), no shared memory of others, and no rights over anything. Many hosts, and most
    /// containers, don't allow it.
    fn leave_namespaces(&self) {
        let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
        flags.set(UnshareFlags::NEWNET, !self.network);
        // SAFETY: no table of descriptors is unshared.
        if unsafe { unshare_unsafe(flags) }.is_err() {
            return;
        }
        // Without a map it is nobody, too; these have it own its files.
        let _ = write(Path::new("/proc/self/setgroups"), "deny");
        let _ = write(Path::new("/proc/self/uid_map"), &self.uid_map);
        let _ = write(Path::new("/proc/self/gid_map"), &self.gid_map);
    }
}

/// Opening a file by a short path takes no memory of the heap.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

fn rules(confinement: &Confinement) -> Result<RulesetCreated, landlock::RulesetError> {
    let read = AccessFs::from_read(LANDLOCK_ABI);
    let all = AccessFs::from_all(LANDLOCK_ABI);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?;
    if !confinement.network {
        rules = rules.handle_access(AccessNet::from_all(LANDLOCK_ABI))?;
    }
    rules
        .scope(Scope::from_all(LANDLOCK_ABI))?
        .create()?
        .add_rules(path_beneath_rules(&confinement.read, read))?
        .add_rules(path_beneath_rules(&confinement.write, all))
}

/// The last processor that this process may use: the first ones have more to do as a rule.
fn last_cpu() -> Option<CpuSet> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let last = (0..CpuSet::MAX_CPU)
        .rev()
        .find(|cpu| allowed.is_set(*cpu))?;
    let mut one = CpuSet::new();
    one.set(last);
    Some(one)
}
