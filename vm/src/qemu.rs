//! The QEMU backends: with KVM where it is usable, otherwise emulating the processor.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::architecture::Architecture;
use super::backend::{Backend, Channel, Prepared};
use super::boot_files::{Appliance, QemuFiles, find_program};
use super::confine::Confinement;
use super::console::NAME as PORT_NAME;
use super::run_dir::RunDir;
use super::saved_state::SavedState;
use super::{VmOptions, kvm_probe};
use diskfs_disk::{Error, ErrorKind, Result};

/// The accelerator that runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accelerator {
    Kvm,
    Tcg,
}

#[derive(Debug)]
pub(super) struct Qemu(pub(super) Accelerator);

impl Backend for Qemu {
    fn prepare(
        &self,
        appliance: &Appliance,
        options: &VmOptions,
    ) -> Result<Vec<Box<dyn Prepared>>> {
        let accelerator = self.0;
        let files = match &options.kernel {
            Some(kernel) => kernel.files().clone(),
            None => appliance.qemu()?,
        };
        let architecture = Architecture::of_kernel(&files.kernel)?;
        let program = find(architecture)?;
        if accelerator == Accelerator::Kvm
            && let Some(problem) = kvm_problem(architecture)
        {
            return Err(Error::new(ErrorKind::Unsupported, problem));
        }
        // With KVM booting is as fast as restoring, and a saved state does not fit another
        // processor.
        let saved = (accelerator == Accelerator::Tcg).then_some(&files.saved);
        let saved = saved.and_then(|file| SavedState::find(file, options.memory_mib));
        let starts = saved.map(Start::Restore).into_iter();
        let starts = starts.chain([Start::Boot(files)]);
        let ready = starts.map(|start| {
            let ready = Ready {
                program: program.clone(),
                architecture,
                start,
                accelerator,
                memory_mib: options.memory_mib,
                network: options.network,
            };
            Box::new(ready) as _
        });
        Ok(ready.collect())
    }
}

/// Returns the reason why KVM does not run a kernel of that architecture; `None` if it does.
fn kvm_problem(architecture: Architecture) -> Option<String> {
    if architecture != Architecture::HOST {
        return Some(format!(
            "KVM does not run a kernel for {}",
            architecture.name()
        ));
    }
    kvm_probe::problem()
}

/// Returns the path of QEMU's program for that architecture.
///
/// # Errors
/// Fails with `Unsupported` if it is not installed.
pub(super) fn find(architecture: Architecture) -> Result<PathBuf> {
    let program = architecture.program();
    find_program(program).ok_or_else(|| {
        let hint = match architecture {
            Architecture::X86_64 => {
                "install the package qemu-system-x86 (Debian) or qemu-kvm-core (Fedora)"
            }
            Architecture::Aarch64 => {
                "install the package qemu-system-arm (Debian) or qemu-system-aarch64-core (Fedora)"
            }
        };
        Error::new(
            ErrorKind::Unsupported,
            format!("{program} is not installed"),
        )
        .with_hint(hint)
    })
}

/// The way to a running agent: booting, or restoring a saved state.
#[derive(Debug)]
enum Start {
    Boot(QemuFiles),
    Restore(SavedState),
}

#[derive(Debug)]
struct Ready {
    program: PathBuf,
    architecture: Architecture,
    start: Start,
    accelerator: Accelerator,
    memory_mib: u32,
    network: bool,
}

impl Prepared for Ready {
    fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.program.clone()];
        match &self.start {
            Start::Boot(boot) => files.extend([boot.kernel.clone(), boot.initramfs.clone()]),
            Start::Restore(saved) => files.push(saved.file().to_owned()),
        }
        files
    }

    /// Returns the deadline. An idle machine answers within 0.5 s with KVM or from a saved state,
    /// and within 2.5 s otherwise; a busy one takes many times as long.
    fn deadline(&self) -> Duration {
        match (self.accelerator, &self.start) {
            (Accelerator::Kvm, _) => Duration::from_secs(5),
            (Accelerator::Tcg, Start::Restore(_)) => Duration::from_secs(10),
            (Accelerator::Tcg, Start::Boot(_)) => Duration::from_secs(30),
        }
    }

    fn command(&self, dir: &RunDir, disks: usize) -> Result<(Command, Confinement)> {
        let kind = match &self.start {
            Start::Boot(_) => self.architecture.machine(),
            Start::Restore(saved) => saved.machine(),
        };
        let processor = (self.architecture, self.accelerator);
        let mut qemu = machine(&self.program, kind, processor, self.memory_mib);
        let inherits = match &self.start {
            Start::Boot(files) => {
                boot(&mut qemu, files, &command_line(self.architecture));
                None
            }
            Start::Restore(saved) => {
                let state = saved.stream()?;
                qemu.args(["-incoming", &format!("fd:{}", state.as_raw_fd())]);
                Some(Arc::new(state))
            }
        };
        let socket =
            |id: &str, path: PathBuf| format!("socket,id={id},path={}", doubled_commas(&path));
        agent(&mut qemu, &socket(AGENT, dir.console()));
        for index in 0..disks {
            let id = format!("disk{index}");
            qemu.args(["-chardev", &socket(&id, dir.disk(index))])
                .args(["-device", &format!("vhost-user-blk-pci,chardev={id}")]);
        }
        if self.network {
            qemu.args(["-netdev", "user,id=network"])
                .args(["-device", "virtio-net-pci,netdev=network,romfile="]);
        }
        qemu.env_clear().env("TMPDIR", dir.path());
        let confinement = Confinement {
            inherits,
            ..self.confinement(dir)
        };
        Ok((qemu, confinement))
    }

    fn channel(&self) -> Channel {
        Channel::Stream
    }
}

/// The id of the agent's stream on the command line.
pub(super) const AGENT: &str = "agent";

/// Returns the kernel's command line: no self-tests of ciphers (0.2 s of emulation), a panic ends
/// the machine, and a reboot is the quickest end of it.
pub(super) fn command_line(architecture: Architecture) -> String {
    let console = architecture.serial_line();
    format!("console={console} quiet panic=-1 reboot=t cryptomgr.notests random.trust_cpu=on")
}

/// Returns the command for a machine with a processor, memory and a log, and no other privileges.
pub(super) fn machine(
    program: &Path,
    kind: &str,
    (architecture, accelerator): (Architecture, Accelerator),
    memory_mib: u32,
) -> Command {
    let properties = architecture.properties();
    let mut qemu = Command::new(program);
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-name", "diskfs"])
        .arg("-sandbox")
        .arg("on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
        .arg("-machine")
        .arg(format!("{kind},memory-backend=memory,{properties}"))
        .args(accelerator.processor(architecture))
        .args(["-m", &format!("{memory_mib}M")])
        .arg("-object")
        .arg(format!(
            "memory-backend-memfd,id=memory,size={memory_mib}M,share=on"
        ))
        .args(["-chardev", "stdio,id=log,signal=off"])
        .args(["-serial", "chardev:log", "-monitor", "none"]);
    qemu
}

/// Adds the options that boot a kernel.
pub(super) fn boot(qemu: &mut Command, files: &QemuFiles, command_line: &str) {
    qemu.arg("-kernel").arg(&files.kernel);
    qemu.arg("-initrd").arg(&files.initramfs);
    qemu.args(["-append", command_line]);
}

/// Adds the agent's stream, always at the same bus address: before all disks.
pub(super) fn agent(qemu: &mut Command, stream: &str) {
    qemu.args(["-chardev", stream])
        .args(["-device", "virtio-serial-pci,addr=2"])
        .arg("-device")
        // With an id, the monitor reports when the port is opened.
        .arg(format!(
            "virtserialport,id=port,chardev={AGENT},name={PORT_NAME}"
        ));
}

impl Accelerator {
    fn processor(self, architecture: Architecture) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => {
                let model = architecture.emulated_processor();
                ["-accel", "tcg,thread=multi", "-cpu", model]
            }
        }
    }
}

impl Ready {
    fn confinement(&self, dir: &RunDir) -> Confinement {
        let system = [
            "/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys",
        ];
        let mut read: Vec<PathBuf> = system.map(PathBuf::from).to_vec();
        read.extend(self.files());
        let mut write = vec![dir.path().to_owned(), "/dev/null".into()];
        if self.accelerator == Accelerator::Kvm {
            write.push("/dev/kvm".into());
        }
        Confinement {
            read,
            write,
            network: self.network,
            ..Confinement::default()
        }
    }
}

/// Escapes a path for an option of QEMU, where a comma ends a value.
pub(super) fn doubled_commas(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(doubled_commas(Path::new("/a,b/c")), "/a,,b/c");
    }
}
