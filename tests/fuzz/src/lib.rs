//! What the fuzzers call: one function for each parser, which takes any bytes and comes back.
//!
//! Each opens what the bytes are as an image, and asks all that a user could ask of it, within
//! bounds. They check nothing but that an answer comes: a panic, a loop or a flood of memory is the
//! bug. What the bytes mean is for the oracle tests.
//!
//! * `cargo fuzz run qcow2 --fuzz-dir tests/fuzz --features libfuzzer` (nightly) looks for inputs
//!   by coverage;
//! * `cargo run -p diskfs-fuzz --bin smoke -- --seconds 70` mutates the fixtures; it needs nothing but
//!   a stable compiler. Not with `--release`: that leaves out the checks for sums that wrap.
//!
//! An input is an image, or a [`Sparse`] one: the fixtures are mebibytes of zeroes with a few blocks
//! in them, and a fuzzer shall not spend its time in the zeroes.

mod change;
mod content;
mod deploy;
mod etc;
mod exfat;
mod ext4;
mod ext4_write;
mod fat;
mod guest;
mod image;
mod image_write;
mod iso9660;
mod journal;
mod labels;
mod luks;
mod lvm;
mod md;
pub mod mutate;
mod persistent;
pub mod random;
mod registry;
mod remote;
mod rpm;
pub mod seeds;
mod selinux;
mod sparse;
mod systemd_journal;
mod tables;
mod varstore;

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};

pub use sparse::Sparse;

/// A function to be fuzzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Everything that tells what a disk is.
    Probe,
    /// What a volume holds, told from magic numbers.
    ProbeContent,
    /// A qcow2 image: headers, tables, snapshots, clusters.
    Qcow2,
    /// A qcow2 image that is written to.
    Qcow2Write,
    /// A GPT, with right checksums.
    Gpt,
    /// Any partition table, as it is, and with right checksums of labels.
    Mbr,
    /// LVM's groups, with right checksums.
    Lvm,
    /// md's arrays, with right checksums.
    Md,
    /// LUKS, with right checksums.
    Luks,
    /// An ext2, ext3 or ext4 filesystem: its whole tree, contents and attributes.
    Ext4Walk,
    /// An ext2, ext3 or ext4 filesystem that is written to.
    Ext4Write,
    /// A FAT filesystem: its whole tree and contents, then changes.
    Fat,
    /// An ISO 9660 filesystem: its whole tree and contents.
    Iso9660,
    /// An exFAT filesystem, with right checksums: its whole tree and contents, then changes.
    Exfat,
    /// A journal file of systemd: boots, entries and fields.
    SystemdJournal,
    /// A guest's files of settings: all that `inspect` asks.
    Guest,
    /// A plan over a hostile guest, written and worked out again.
    Deploy,
    /// A registry hive and its logs, with right checksums.
    Registry,
    /// The answers of a microVM's agent: all that is asked of a filesystem there.
    Remote,
    /// rpm's databases of packages, with right checksums.
    Rpm,
    /// The texts of a policy of SELinux, and labels of paths by them.
    Selinux,
    /// The text files of `/etc`, read and edited.
    Etc,
    /// A UEFI variable store, with a right checksum: all that it says, then edits.
    Varstore,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Probe,
        Self::ProbeContent,
        Self::Qcow2,
        Self::Qcow2Write,
        Self::Gpt,
        Self::Mbr,
        Self::Lvm,
        Self::Md,
        Self::Luks,
        Self::Ext4Walk,
        Self::Ext4Write,
        Self::Fat,
        Self::Iso9660,
        Self::Exfat,
        Self::SystemdJournal,
        Self::Guest,
        Self::Deploy,
        Self::Registry,
        Self::Remote,
        Self::Rpm,
        Self::Selinux,
        Self::Etc,
        Self::Varstore,
    ];

    /// The name, as `cargo fuzz` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::ProbeContent => "probe_content",
            Self::Qcow2 => "qcow2",
            Self::Qcow2Write => "qcow2_write",
            Self::Gpt => "gpt",
            Self::Mbr => "mbr",
            Self::Lvm => "lvm",
            Self::Md => "md",
            Self::Luks => "luks",
            Self::Ext4Walk => "ext4_walk",
            Self::Ext4Write => "ext4_write",
            Self::Fat => "fat",
            Self::Iso9660 => "iso9660",
            Self::Exfat => "exfat",
            Self::SystemdJournal => "systemd_journal",
            Self::Guest => "guest",
            Self::Deploy => "deploy",
            Self::Registry => "registry",
            Self::Remote => "remote",
            Self::Rpm => "rpm",
            Self::Selinux => "selinux",
            Self::Etc => "etc",
            Self::Varstore => "varstore",
        }
    }

    /// Runs it on a device.
    pub fn run(self, device: &Arc<dyn BlockRead>) {
        match self {
            Self::Probe => image::probe(device),
            Self::ProbeContent => content::probe(device),
            Self::Qcow2 => image::qcow2(device),
            Self::Qcow2Write => image_write::qcow2(device),
            Self::Gpt => tables::gpt(device),
            Self::Mbr => tables::mbr(device),
            Self::Lvm => lvm::groups(device),
            Self::Md => md::all(device),
            Self::Luks => luks::volume(device),
            Self::Ext4Walk => ext4::walk(device),
            Self::Ext4Write => ext4_write::write(device),
            Self::Fat => fat::all(device),
            Self::Iso9660 => iso9660::walk(device),
            Self::Exfat => exfat::all(device),
            Self::SystemdJournal => systemd_journal::all(device),
            Self::Guest => guest::report(device),
            Self::Deploy => deploy::plan(device),
            Self::Registry => registry::hive(device),
            Self::Remote => remote::session(device),
            Self::Rpm => rpm::packages(device),
            Self::Selinux => selinux::labels(device),
            Self::Etc => etc::texts(device),
            Self::Varstore => varstore::store(device),
        }
    }

    /// Reads the structures only, as far as they can be told from contents.
    pub fn survey(self, device: &Arc<dyn BlockRead>) {
        match self {
            Self::Qcow2 | Self::Qcow2Write => image::survey(device),
            Self::Ext4Walk => ext4::survey(device),
            Self::Ext4Write => ext4_write::survey(device),
            Self::Fat => fat::survey(device),
            Self::Iso9660 => iso9660::survey(device),
            Self::Exfat => exfat::survey(device),
            Self::Varstore => varstore::survey(device),
            Self::Probe
            | Self::ProbeContent
            | Self::Gpt
            | Self::Mbr
            | Self::Lvm
            | Self::Md
            | Self::Luks
            | Self::SystemdJournal
            | Self::Guest
            | Self::Deploy
            | Self::Registry
            | Self::Remote
            | Self::Rpm
            | Self::Selinux
            | Self::Etc => {
                self.run(device);
            }
        }
    }
}

/// The device that an input stands for.
pub fn device(data: &[u8]) -> Arc<dyn BlockRead> {
    match Sparse::from_input(data) {
        Some(sparse) => Arc::new(sparse),
        None => Arc::new(Memory::new(data)),
    }
}

/// [`Target::Probe`] on an input.
pub fn probe(data: &[u8]) {
    Target::Probe.run(&device(data));
}

/// [`Target::ProbeContent`] on an input.
pub fn probe_content(data: &[u8]) {
    Target::ProbeContent.run(&device(data));
}

/// [`Target::Qcow2`] on an input.
pub fn qcow2(data: &[u8]) {
    Target::Qcow2.run(&device(data));
}

/// [`Target::Qcow2Write`] on an input.
pub fn qcow2_write(data: &[u8]) {
    Target::Qcow2Write.run(&device(data));
}

/// [`Target::Gpt`] on an input.
pub fn gpt(data: &[u8]) {
    Target::Gpt.run(&device(data));
}

/// [`Target::Mbr`] on an input.
pub fn mbr(data: &[u8]) {
    Target::Mbr.run(&device(data));
}

/// [`Target::Lvm`] on an input.
pub fn lvm(data: &[u8]) {
    Target::Lvm.run(&device(data));
}

/// [`Target::Md`] on an input.
pub fn md(data: &[u8]) {
    Target::Md.run(&device(data));
}

/// [`Target::Luks`] on an input.
pub fn luks(data: &[u8]) {
    Target::Luks.run(&device(data));
}

/// [`Target::Ext4Walk`] on an input.
pub fn ext4_walk(data: &[u8]) {
    Target::Ext4Walk.run(&device(data));
}

/// [`Target::Ext4Write`] on an input.
pub fn ext4_write(data: &[u8]) {
    Target::Ext4Write.run(&device(data));
}

/// [`Target::Fat`] on an input.
pub fn fat(data: &[u8]) {
    Target::Fat.run(&device(data));
}

/// [`Target::Iso9660`] on an input.
pub fn iso9660(data: &[u8]) {
    Target::Iso9660.run(&device(data));
}

/// [`Target::Exfat`] on an input.
pub fn exfat(data: &[u8]) {
    Target::Exfat.run(&device(data));
}

/// [`Target::SystemdJournal`] on an input.
pub fn systemd_journal(data: &[u8]) {
    Target::SystemdJournal.run(&device(data));
}

/// [`Target::Guest`] on an input.
pub fn guest(data: &[u8]) {
    Target::Guest.run(&device(data));
}

/// [`Target::Deploy`] on an input.
pub fn deploy(data: &[u8]) {
    Target::Deploy.run(&device(data));
}

/// [`Target::Registry`] on an input.
pub fn registry(data: &[u8]) {
    Target::Registry.run(&device(data));
}

/// [`Target::Remote`] on an input.
pub fn remote(data: &[u8]) {
    Target::Remote.run(&device(data));
}

/// [`Target::Varstore`] on an input.
pub fn varstore(data: &[u8]) {
    Target::Varstore.run(&device(data));
}

/// [`Target::Rpm`] on an input.
pub fn rpm(data: &[u8]) {
    Target::Rpm.run(&device(data));
}

/// [`Target::Selinux`] on an input.
pub fn selinux(data: &[u8]) {
    Target::Selinux.run(&device(data));
}

/// [`Target::Etc`] on an input.
pub fn etc(data: &[u8]) {
    Target::Etc.run(&device(data));
}
