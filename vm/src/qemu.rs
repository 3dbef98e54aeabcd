//! QEMU: with KVM where that is of use, else emulating the processor.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::backend::{Backend, Channel, Prepared};
use super::boot_files::{Appliance, QemuFiles, find_program};
use super::confine::Confinement;
use super::console::NAME as PORT_NAME;
use super::run_dir::RunDir;
use super::saved_state::SavedState;
use super::{VmOptions, kvm_probe};
use diskfs_disk::{Error, ErrorKind, Result};

/// The program for machines like this one. Others would have to be told how to boot.
const PROGRAM: &str = "qemu-system-x86_64";

/// What runs the guest's instructions.
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
        if !cfg!(target_arch = "x86_64") {
            let reason = "QEMU machines are made for x86-64 only";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let program = find()?;
        let files = match &options.kernel {
            Some(kernel) => kernel.files().clone(),
            None => appliance.qemu()?,
        };
        if accelerator == Accelerator::Kvm
            && let Some(problem) = kvm_probe::problem()
        {
            return Err(Error::new(ErrorKind::Unsupported, problem));
        }
        // With KVM it boots as fast; and another processor is another machine.
        let saved = (accelerator == Accelerator::Tcg).then_some(&files.saved);
        let saved = saved.and_then(|file| SavedState::find(file, options.memory_mib));
        let starts = saved.map(Start::Restore).into_iter();
        let starts = starts.chain([Start::Boot(files)]);
        let ready = starts.map(|start| {
            let ready = Ready {
                program: program.clone(),
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

/// QEMU's program.
///
/// # Errors
/// `Unsupported` without it.
pub(super) fn find() -> Result<PathBuf> {
    find_program(PROGRAM).ok_or_else(|| {
        let hint = "install it (qemu-system-x86 on Debian, qemu-kvm-core on Fedora)";
        Error::new(ErrorKind::Unsupported, format!("there is no {PROGRAM}")).with_hint(hint)
    })
}

/// How a machine comes to its agent.
#[derive(Debug)]
enum Start {
    Boot(QemuFiles),
    Restore(SavedState),
}

#[derive(Debug)]
struct Ready {
    program: PathBuf,
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

    /// An idle machine answers within 0.5 s with KVM or from a saved state, and 2.5 s without; a busy one takes
    /// many times as long.
    fn deadline(&self) -> Duration {
        match (self.accelerator, &self.start) {
            (Accelerator::Kvm, _) => Duration::from_secs(5),
            (Accelerator::Tcg, Start::Restore(_)) => Duration::from_secs(10),
            (Accelerator::Tcg, Start::Boot(_)) => Duration::from_secs(30),
        }
    }

    fn command(&self, dir: &RunDir, disks: usize) -> (Command, Confinement) {
        let kind = match &self.start {
            Start::Boot(_) => MACHINE,
            Start::Restore(saved) => saved.machine(),
        };
        let mut qemu = machine(&self.program, kind, self.accelerator, self.memory_mib);
        match &self.start {
            Start::Boot(files) => boot(&mut qemu, files, KERNEL_COMMAND_LINE),
            Start::Restore(saved) => {
                qemu.args(["-incoming", &saved.uri()]);
            }
        }
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
        (qemu, self.confinement(dir))
    }

    fn channel(&self) -> Channel {
        Channel::Stream
    }
}

/// The one kind of machine that has what Debian's kernels look for, and boots each time.
pub(super) const MACHINE: &str = "pc";

/// What the agent's stream is called on the command line.
pub(super) const AGENT: &str = "agent";

/// No self-tests of ciphers (0.2 s of emulation), a panic ends the machine, and a reboot is the
/// quickest end of it.
pub(super) const KERNEL_COMMAND_LINE: &str =
    "console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests random.trust_cpu=on";

/// QEMU with a machine that has a processor, memory and a log, and may do nothing else.
pub(super) fn machine(
    program: &Path,
    kind: &str,
    accelerator: Accelerator,
    memory_mib: u32,
) -> Command {
    let mut qemu = Command::new(program);
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-name", "diskfs"])
        .arg("-sandbox")
        .arg("on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
        .arg("-machine")
        .arg(format!("{kind},memory-backend=memory,usb=off,vmport=off"))
        .args(accelerator.processor())
        .args(["-m", &format!("{memory_mib}M")])
        .arg("-object")
        .arg(format!(
            "memory-backend-memfd,id=memory,size={memory_mib}M,share=on"
        ))
        .args(["-chardev", "stdio,id=log,signal=off"])
        .args(["-serial", "chardev:log", "-monitor", "none"]);
    qemu
}

/// Has a machine boot.
pub(super) fn boot(qemu: &mut Command, files: &QemuFiles, command_line: &str) {
    qemu.arg("-kernel").arg(&files.kernel);
    qemu.arg("-initrd").arg(&files.initramfs);
    qemu.args(["-append", command_line]);
}

/// Gives a machine the agent's stream, always at the same place: before all disks.
pub(super) fn agent(qemu: &mut Command, stream: &str) {
    qemu.args(["-chardev", stream])
        .args(["-device", "virtio-serial-pci,addr=2"])
        .arg("-device")
        // With an identity the monitor tells when it is opened.
        .arg(format!(
            "virtserialport,id=port,chardev={AGENT},name={PORT_NAME}"
        ));
}

impl Accelerator {
    fn processor(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // The plainest one: what newer ones have is slower to emulate than to do without.
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "qemu64"],
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
            one_cpu: false,
            network: self.network,
        }
    }
}

/// A path in an option of QEMU, where a comma ends a value.
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
