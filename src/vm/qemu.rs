//! QEMU: with KVM where that is of use, else emulating the processor.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::appliance::{Appliance, QemuFiles, find_program};
use super::backend::{Backend, Channel, Prepared};
use super::confine::Confinement;
use super::run_dir::RunDir;
use super::{VmOptions, kvm_probe};
use crate::{Error, ErrorKind, Result};

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
    fn prepare(&self, appliance: &Appliance, options: &VmOptions) -> Result<Box<dyn Prepared>> {
        let unsupported = |reason: String| Error::new(ErrorKind::Unsupported, reason);
        if !cfg!(target_arch = "x86_64") {
            return Err(unsupported(
                "QEMU machines are made for x86-64 only".to_owned(),
            ));
        }
        let program = find_program(PROGRAM).ok_or_else(|| {
            let hint = "install it (qemu-system-x86 on Debian, qemu-kvm-core on Fedora)";
            unsupported(format!("there is no {PROGRAM}")).with_hint(hint)
        })?;
        let files = match &options.kernel {
            Some(kernel) => kernel.files().clone(),
            None => appliance.qemu()?,
        };
        if self.0 == Accelerator::Kvm
            && let Some(problem) = kvm_probe::problem()
        {
            return Err(unsupported(problem));
        }
        Ok(Box::new(Ready {
            program,
            files,
            accelerator: self.0,
            memory_mib: options.memory_mib,
        }))
    }

    /// An idle machine answers within 0.5 s with KVM and 1.5 s without; a busy one takes many times as
    /// long.
    fn deadline(&self) -> Duration {
        match self.0 {
            Accelerator::Kvm => Duration::from_secs(5),
            Accelerator::Tcg => Duration::from_secs(30),
        }
    }
}

#[derive(Debug)]
struct Ready {
    program: PathBuf,
    files: QemuFiles,
    accelerator: Accelerator,
    memory_mib: u32,
}

impl Prepared for Ready {
    fn files(&self) -> Vec<PathBuf> {
        vec![
            self.program.clone(),
            self.files.kernel.clone(),
            self.files.initramfs.clone(),
        ]
    }

    fn command(&self, dir: &RunDir, disks: usize) -> (Command, Confinement) {
        let mut qemu = Command::new(&self.program);
        let memory = self.memory_mib;
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-name", "diskfs"])
            .arg("-sandbox")
            .arg("on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
            // The one kind of machine that has what Debian's kernels look for, and boots each time.
            .args(["-machine", "pc,memory-backend=memory,usb=off,vmport=off"])
            .args(self.processor())
            .args(["-m", &format!("{memory}M")])
            .arg("-object")
            .arg(format!(
                "memory-backend-memfd,id=memory,size={memory}M,share=on"
            ));
        qemu.arg("-kernel").arg(&self.files.kernel);
        qemu.arg("-initrd").arg(&self.files.initramfs);
        qemu.args(["-append", KERNEL_COMMAND_LINE]);
        qemu.args([
            "-chardev",
            "stdio,id=log,signal=off",
            "-serial",
            "chardev:log",
        ]);
        qemu.args(["-monitor", "none"]);
        let socket =
            |id: &str, path: PathBuf| format!("socket,id={id},path={}", doubled_commas(&path));
        for index in 0..disks {
            let id = format!("disk{index}");
            qemu.args(["-chardev", &socket(&id, dir.disk(index))])
                .args(["-device", &format!("vhost-user-blk-pci,chardev={id}")]);
        }
        qemu.args(["-chardev", &socket("agent", dir.console())])
            .args(["-device", "virtio-serial-pci"])
            .args(["-device", "virtserialport,chardev=agent,name=diskfs.0"]);
        qemu.env_clear().env("TMPDIR", dir.path());
        (qemu, self.confinement(dir))
    }

    fn channel(&self) -> Channel {
        Channel::Stream
    }
}

/// No self-tests of ciphers (0.2 s of emulation), a panic ends the machine, and a reboot is the
/// quickest end of it.
const KERNEL_COMMAND_LINE: &str =
    "console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests random.trust_cpu=on";

impl Ready {
    fn processor(&self) -> [&'static str; 4] {
        match self.accelerator {
            Accelerator::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // The plainest one: what newer ones have is slower to emulate than to do without.
            Accelerator::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "qemu64"],
        }
    }

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
        }
    }
}

/// A path in an option of QEMU, where a comma ends a value.
fn doubled_commas(path: &Path) -> String {
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
