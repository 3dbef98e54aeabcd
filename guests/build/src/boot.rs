//! The boot loader: files of the image that are copied to the system partition, and its settings.

mod entry;
mod files;
mod grub;
mod systemd_boot;

use diskfs_disk::{Error, ErrorKind, Result};

use crate::plan::{BootloaderKind, BootloaderPlan};
use crate::problem::at;
use crate::slot::{Contents, Slot};

pub(crate) use entry::Entry;
pub(crate) use files::BootFiles;

/// The key of the plan.
const KEY: &str = "bootloader";

/// An architecture of UEFI: the ending of its programs' names, and GRUB's name of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Architecture {
    pub(crate) efi: &'static str,
    pub(crate) grub: &'static str,
}

/// The architectures of UEFI (UEFI 2.10, 3.5.1.1).
const ARCHITECTURES: [Architecture; 4] = [
    Architecture {
        efi: "x64",
        grub: "x86_64-efi",
    },
    Architecture {
        efi: "aa64",
        grub: "arm64-efi",
    },
    Architecture {
        efi: "ia32",
        grub: "i386-efi",
    },
    Architecture {
        efi: "riscv64",
        grub: "riscv64-efi",
    },
];

/// A file to write to the system partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EspFile {
    /// The path on the system partition, without a slash in front.
    pub(crate) to: String,
    pub(crate) from: EspSource,
}

/// The contents of a file of the system partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EspSource {
    /// A file of the image, by its path.
    Image {
        path: String,
        size_bytes: u64,
    },
    Text(String),
}

/// A system of the image that the boot loader starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct System<'a> {
    pub(crate) slots: &'a [Slot],
    pub(crate) files: &'a BootFiles,
    /// The slot of the root filesystem.
    pub(crate) root: &'a Slot,
    /// The slot of the system partition.
    pub(crate) esp: &'a Slot,
}

/// A planned boot loader.
#[derive(Debug)]
pub(crate) struct Boot {
    kind: BootloaderKind,
    architecture: Architecture,
    programs: Vec<EspFile>,
    entry: Entry,
    timeout: u32,
}

impl Boot {
    /// Finds the programs, the kernel and the initramfs.
    ///
    /// # Errors
    /// `NotFound` with what is missing.
    pub(crate) fn plan(plan: &BootloaderPlan, system: System<'_>) -> Result<Self> {
        let found = find(plan.kind, system.files).map_err(|error| at(KEY, error))?;
        let (kind, architecture, programs) = found;
        Ok(Self {
            kind,
            architecture,
            programs,
            entry: Entry::plan(plan, system).map_err(|error| at(KEY, error))?,
            timeout: plan.timeout,
        })
    }

    /// Returns the name of the boot loader.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            BootloaderKind::SystemdBoot => "systemd-boot",
            BootloaderKind::Grub => "grub",
            BootloaderKind::Shim => "shim",
        }
    }

    /// Returns the files for the system partition. `vendor` and `title` are the identifier and the
    /// name of the operating system.
    pub(crate) fn files(&self, vendor: &str, title: &str) -> Vec<EspFile> {
        let mut files = self.programs.clone();
        match self.kind {
            BootloaderKind::SystemdBoot => {
                files.extend(systemd_boot::files(&self.entry, self.timeout, title));
            }
            BootloaderKind::Grub | BootloaderKind::Shim => {
                files.extend(grub::settings(&self.entry, self.timeout, vendor, title));
            }
        }
        files
    }

    /// Returns the architecture.
    pub(crate) fn architecture(&self) -> Architecture {
        self.architecture
    }
}

/// Returns true if the files contain a boot loader.
pub(crate) fn has_boot_loader(files: &BootFiles) -> bool {
    find(None, files).is_ok() && entry::newest_kernel(files).is_some()
}

type Found = (BootloaderKind, Architecture, Vec<EspFile>);

fn find(kind: Option<BootloaderKind>, files: &BootFiles) -> Result<Found> {
    let all = [
        BootloaderKind::Shim,
        BootloaderKind::SystemdBoot,
        BootloaderKind::Grub,
    ];
    let wanted = all
        .into_iter()
        .filter(|one| kind.is_none_or(|kind| kind == *one));
    for kind in wanted {
        for architecture in ARCHITECTURES {
            let programs = match kind {
                BootloaderKind::SystemdBoot => systemd_boot::programs(architecture, files),
                BootloaderKind::Grub => grub::programs(architecture, files),
                BootloaderKind::Shim => grub::signed_programs(architecture, files),
            };
            if let Some(programs) = programs {
                return Ok((kind, architecture, programs));
            }
        }
    }
    let reason = "the files have no such EFI program";
    Err(Error::new(ErrorKind::NotFound, reason).with_hint(
        "install systemd-boot (/usr/lib/systemd/boot/efi/systemd-bootx64.efi), GRUB's image \
         (/usr/lib/grub/x86_64-efi/monolithic/grubx64.efi) or shim (/usr/lib/shim/shimx64.efi.signed)",
    ))
}

/// Returns a program of the image as a file of the system partition.
fn program(files: &BootFiles, from: &str, to: &str) -> Option<EspFile> {
    let found = files.find(from)?;
    Some(EspFile {
        to: to.to_owned(),
        from: EspSource::Image {
            path: found.path,
            size_bytes: found.size_bytes,
        },
    })
}

/// Returns the path of the firmware's default boot loader.
fn default_path(architecture: Architecture) -> String {
    format!("EFI/BOOT/BOOT{}.EFI", architecture.efi.to_uppercase())
}

impl EspSource {
    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Self::Image { size_bytes, .. } => *size_bytes,
            Self::Text(text) => text.len() as u64,
        }
    }
}

/// Returns the encrypted volumes that contain a slot, with the names of their decrypted volumes.
pub(crate) fn encrypted_around<'s>(slots: &'s [Slot], inner: &Slot) -> Vec<(String, &'s str)> {
    let all = slots.iter().flat_map(Slot::all);
    all.filter_map(|slot| match &slot.contents {
        Contents::Luks(luks) => {
            let contains = luks.inner.all().iter().any(|found| found.key == inner.key);
            contains.then(|| (luks.uuid.to_string(), luks.plan.name.as_str()))
        }
        _ => None,
    })
    .collect()
}
