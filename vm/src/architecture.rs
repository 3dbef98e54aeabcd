//! The processor architectures of machines that QEMU boots.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use diskfs_disk::{Error, ErrorKind, Result};

/// A processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    X86_64,
    Aarch64,
}

/// The offset and the bytes by which a kernel for aarch64 is known
/// (`Documentation/arch/arm64/booting.rst`).
const ARM64_MAGIC: (usize, &[u8]) = (0x38, b"ARM\x64");

/// The start of a program, the offset of its architecture, and the numbers of architectures (ELF).
const ELF: &[u8] = b"\x7fELF";
const ELF_MACHINE: usize = 18;
const EM_X86_64: u8 = 62;
const EM_AARCH64: u8 = 183;

/// The length of the part of a file that names its architecture.
const HEADER_BYTES: u64 = 64;

impl Architecture {
    /// The architecture of this program; that of x86-64 if it has none that machines can have.
    pub(super) const HOST: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else {
        Self::X86_64
    };

    /// Returns the architecture of an unpacked kernel or of a program.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let (at, magic) = ARM64_MAGIC;
        if bytes.get(at..).is_some_and(|rest| rest.starts_with(magic)) {
            return Some(Self::Aarch64);
        }
        if !bytes.starts_with(ELF) {
            return None;
        }
        match *bytes.get(ELF_MACHINE)? {
            EM_X86_64 => Some(Self::X86_64),
            EM_AARCH64 => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Returns the architecture of a kernel file.
    ///
    /// # Errors
    /// Fails with `Unsupported` if it is unknown, and with the error of reading.
    pub(super) fn of_kernel(file: &Path) -> Result<Self> {
        let mut header = Vec::new();
        let opened = File::open(file).map_err(|e| Error::from(e).in_file(file))?;
        opened.take(HEADER_BYTES).read_to_end(&mut header)?;
        Self::of(&header).ok_or_else(|| {
            let reason = "unknown architecture of a kernel";
            Error::new(ErrorKind::Unsupported, reason).in_file(file)
        })
    }

    /// Returns the name, as the kernel and compilers spell it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns the name of QEMU's program.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// Returns the machine type. Of those for x86-64, only this one has the devices that Debian's
    /// kernels look for and boots reliably.
    pub(super) const fn machine(self) -> &'static str {
        match self {
            Self::X86_64 => "pc",
            Self::Aarch64 => "virt",
        }
    }

    /// Returns the properties of the machine that remove needless devices.
    pub(super) const fn properties(self) -> &'static str {
        match self {
            Self::X86_64 => "usb=off,vmport=off",
            Self::Aarch64 => "usb=off",
        }
    }

    /// Returns the model of an emulated processor, the simplest one: emulating the instructions of
    /// newer ones is slower than doing without them.
    pub(super) const fn emulated_processor(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu64",
            Self::Aarch64 => "cortex-a57",
        }
    }

    /// Returns the kernel's name of the serial line.
    pub(super) const fn serial_line(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Aarch64 => "ttyAMA0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_programs_name_their_architecture() {
        let mut header = vec![0; 64];
        assert_eq!(Architecture::of(&header), None);
        header[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert_eq!(Architecture::of(&header), Some(Architecture::Aarch64));
        let mut program = vec![0; 64];
        program[..4].copy_from_slice(ELF);
        assert_eq!(Architecture::of(&program), None);
        program[18] = EM_X86_64;
        assert_eq!(Architecture::of(&program), Some(Architecture::X86_64));
        program[18] = EM_AARCH64;
        assert_eq!(Architecture::of(&program), Some(Architecture::Aarch64));
        assert_eq!(Architecture::of(b""), None);
    }
}
