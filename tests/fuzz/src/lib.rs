//! The functions that the fuzzers call, one for each parser. Each accepts any bytes.
//!
//! A function opens the bytes as an image, and makes all calls that a user could make, within
//! bounds. The only check is that every call returns: a panic, an endless loop or excessive memory
//! is the bug. The oracle tests check the results.
//!
//! * `cargo fuzz run qcow2 --fuzz-dir tests/fuzz --features libfuzzer` (nightly) searches inputs by
//!   coverage.
//! * `cargo run -p diskfs-fuzz --bin smoke -- --seconds 70` mutates the fixtures, and needs only a
//!   stable compiler. Do not use `--release`, which omits the checks for arithmetic overflow.
//!
//! An input is an image, or a [`Sparse`] one: the fixtures are mebibytes of zeroes with a few
//! blocks in them, and a fuzzer should not spend its time on the zeroes.

mod archive;
mod bitmaps;
mod btrfs;
mod change;
mod content;
pub mod corpus;
mod deploy;
pub mod differential;
mod erofs;
mod etc;
mod exfat;
mod ext4;
pub mod ext4_seal;
mod ext4_write;
mod fat;
pub mod finding;
mod guest;
mod image;
mod image_maps;
mod image_write;
mod iso9660;
mod journal;
mod labels;
mod luks;
mod lvm;
mod md;
pub mod mutate;
mod nbd;
mod oci;
mod ova;
mod persistent;
pub mod random;
mod registry;
mod remote;
mod rpm;
pub mod seeds;
mod selinux;
mod service;
mod sparse;
mod squashfs;
mod systemd_journal;
mod tables;
mod validate;
mod varstore;
mod vmdk;
mod volume;
mod xfs;
mod xfs_log;
mod xfs_seal;

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};

pub use sparse::Sparse;

/// A fuzz target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Everything that identifies a disk.
    Probe,
    /// The identification of a volume's contents by magic numbers.
    ProbeContent,
    /// A qcow2 image: headers, tables, snapshots, clusters.
    Qcow2,
    /// A qcow2 image that is written to.
    Qcow2Write,
    /// The bitmaps of a qcow2 image: read, backed up by, and changed.
    Qcow2Bitmaps,
    /// An image of a format that is only read, with valid checksums.
    ImageMaps,
    /// An image of any format with valid checksums, validated by each policy.
    Validate,
    /// A GPT with valid checksums.
    Gpt,
    /// Any partition table, unchanged and with valid label checksums.
    Mbr,
    /// LVM volume groups with valid checksums.
    Lvm,
    /// md arrays with valid checksums.
    Md,
    /// LUKS volumes with valid checksums.
    Luks,
    /// An ext2, ext3 or ext4 filesystem: its whole tree, contents and attributes.
    Ext4Walk,
    /// An ext2, ext3 or ext4 filesystem that is written to.
    Ext4Write,
    /// A FAT filesystem: its whole tree and contents, then changes.
    Fat,
    /// A btrfs filesystem with valid checksums: its whole tree and contents.
    Btrfs,
    /// An ISO 9660 filesystem: its whole tree and contents.
    Iso9660,
    /// A squashfs filesystem: its whole tree, contents and attributes.
    Squashfs,
    /// An EROFS filesystem without a checksum: its whole tree, contents and attributes.
    Erofs,
    /// An exFAT filesystem with valid checksums: its whole tree and contents, then changes.
    Exfat,
    /// A journal file of systemd: boots, entries and fields.
    SystemdJournal,
    /// A guest's configuration files: the whole report of `inspect`.
    Guest,
    /// A plan on a hostile guest, applied and prepared again.
    Deploy,
    /// A registry hive and its logs with valid checksums.
    Registry,
    /// The answers of a microVM's agent: all requests for a filesystem.
    Remote,
    /// The databases of rpm with valid checksums.
    Rpm,
    /// The texts of an SELinux policy, and lookups of labels.
    Selinux,
    /// The text files of `/etc`, parsed and edited.
    Etc,
    /// A UEFI variable store with a valid checksum: all variables, then edits.
    Varstore,
    /// A VMDK image, or a descriptor with its files: the whole map.
    Vmdk,
    /// An XFS filesystem: metadata, attributes, contents.
    Xfs,
    /// Layers of tar archives with valid checksums: their tree, written to a filesystem.
    Archive,
    /// An OCI image layout with valid digests: indexes, manifests, the files of layers.
    Oci,
    /// An OVA with valid checksums: archive, envelope, disks.
    Ova,
    /// The messages of the service: requests, and the answers of workers.
    Service,
    /// A client of our NBD server: its handshake and its requests.
    NbdServer,
    /// A server of our NBD client: its handshake and its replies.
    NbdClient,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 37] = [
        Self::Probe,
        Self::ProbeContent,
        Self::Qcow2,
        Self::Qcow2Write,
        Self::Qcow2Bitmaps,
        Self::ImageMaps,
        Self::Validate,
        Self::Gpt,
        Self::Mbr,
        Self::Lvm,
        Self::Md,
        Self::Luks,
        Self::Ext4Walk,
        Self::Ext4Write,
        Self::Fat,
        Self::Btrfs,
        Self::Iso9660,
        Self::Squashfs,
        Self::Erofs,
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
        Self::Vmdk,
        Self::Xfs,
        Self::Archive,
        Self::Oci,
        Self::Ova,
        Self::Service,
        Self::NbdServer,
        Self::NbdClient,
    ];

    /// Returns the name of the target for `cargo fuzz`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::ProbeContent => "probe_content",
            Self::Qcow2 => "qcow2",
            Self::Qcow2Write => "qcow2_write",
            Self::Qcow2Bitmaps => "qcow2_bitmaps",
            Self::ImageMaps => "image_maps",
            Self::Validate => "validate",
            Self::Gpt => "gpt",
            Self::Mbr => "mbr",
            Self::Lvm => "lvm",
            Self::Md => "md",
            Self::Luks => "luks",
            Self::Ext4Walk => "ext4_walk",
            Self::Ext4Write => "ext4_write",
            Self::Fat => "fat",
            Self::Btrfs => "btrfs",
            Self::Iso9660 => "iso9660",
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
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
            Self::Vmdk => "vmdk",
            Self::Xfs => "xfs",
            Self::Archive => "archive",
            Self::Oci => "oci",
            Self::Ova => "ova",
            Self::Service => "service",
            Self::NbdServer => "nbd_server",
            Self::NbdClient => "nbd_client",
        }
    }

    /// Runs the target on a device.
    pub fn run(self, device: &Arc<dyn BlockRead>) {
        match self {
            Self::Probe => image::probe(device),
            Self::ProbeContent => content::probe(device),
            Self::Qcow2 => image::qcow2(device),
            Self::Qcow2Write => image_write::qcow2(device),
            Self::Qcow2Bitmaps => bitmaps::all(device),
            Self::ImageMaps => image_maps::all(device),
            Self::Validate => validate::by_all(device),
            Self::Gpt => tables::gpt(device),
            Self::Mbr => tables::mbr(device),
            Self::Lvm => lvm::groups(device),
            Self::Md => md::all(device),
            Self::Luks => luks::volume(device),
            Self::Ext4Walk => ext4::walk(device),
            Self::Ext4Write => ext4_write::write(device),
            Self::Fat => fat::all(device),
            Self::Btrfs => btrfs::walk(device),
            Self::Iso9660 => iso9660::walk(device),
            Self::Squashfs => squashfs::walk(device),
            Self::Erofs => erofs::walk(device),
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
            Self::Vmdk => vmdk::all(device),
            Self::Xfs => xfs::walk(device),
            Self::Archive => archive::tree(device),
            Self::Oci => oci::layout(device),
            Self::Ova => ova::package(device),
            Self::Service => service::messages(device),
            Self::NbdServer => nbd::serve(device),
            Self::NbdClient => nbd::connect(device),
        }
    }

    /// Reads only the structures, as far as they can be separated from contents.
    pub fn survey(self, device: &Arc<dyn BlockRead>) {
        match self {
            Self::Qcow2 | Self::Qcow2Write => image::survey(device),
            Self::Qcow2Bitmaps => bitmaps::survey(device),
            Self::ImageMaps => image_maps::survey(device),
            Self::Ext4Walk => ext4::survey(device),
            Self::Ext4Write => ext4_write::survey(device),
            Self::Fat => fat::survey(device),
            Self::Btrfs => btrfs::survey(device),
            Self::Iso9660 => iso9660::survey(device),
            Self::Squashfs => squashfs::survey(device),
            Self::Erofs => erofs::survey(device),
            Self::Exfat => exfat::survey(device),
            Self::Varstore => varstore::survey(device),
            Self::Vmdk => vmdk::survey(device),
            Self::Xfs => xfs::survey(device),
            Self::Probe
            | Self::ProbeContent
            | Self::Validate
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
            | Self::Etc
            | Self::Archive
            | Self::Oci
            | Self::Ova
            | Self::Service
            | Self::NbdServer
            | Self::NbdClient => {
                self.run(device);
            }
        }
    }
}

/// Returns the device for an input.
pub fn device(data: &[u8]) -> Arc<dyn BlockRead> {
    match Sparse::from_input(data) {
        Some(sparse) => Arc::new(sparse),
        None => Arc::new(Memory::new(data)),
    }
}

/// Runs [`Target::Probe`] on an input.
pub fn probe(data: &[u8]) {
    Target::Probe.run(&device(data));
}

/// Runs [`Target::ProbeContent`] on an input.
pub fn probe_content(data: &[u8]) {
    Target::ProbeContent.run(&device(data));
}

/// Runs [`Target::Qcow2`] on an input.
pub fn qcow2(data: &[u8]) {
    Target::Qcow2.run(&device(data));
}

/// Runs [`Target::Qcow2Write`] on an input.
pub fn qcow2_write(data: &[u8]) {
    Target::Qcow2Write.run(&device(data));
}

/// Runs [`Target::Qcow2Bitmaps`] on an input.
pub fn qcow2_bitmaps(data: &[u8]) {
    Target::Qcow2Bitmaps.run(&device(data));
}

/// Runs [`Target::ImageMaps`] on an input.
pub fn image_maps(data: &[u8]) {
    Target::ImageMaps.run(&device(data));
}

/// Runs [`Target::Validate`] on an input.
pub fn validate(data: &[u8]) {
    Target::Validate.run(&device(data));
}

/// Runs [`Target::Gpt`] on an input.
pub fn gpt(data: &[u8]) {
    Target::Gpt.run(&device(data));
}

/// Runs [`Target::Mbr`] on an input.
pub fn mbr(data: &[u8]) {
    Target::Mbr.run(&device(data));
}

/// Runs [`Target::Lvm`] on an input.
pub fn lvm(data: &[u8]) {
    Target::Lvm.run(&device(data));
}

/// Runs [`Target::Md`] on an input.
pub fn md(data: &[u8]) {
    Target::Md.run(&device(data));
}

/// Runs [`Target::Luks`] on an input.
pub fn luks(data: &[u8]) {
    Target::Luks.run(&device(data));
}

/// Runs [`Target::Ext4Walk`] on an input.
pub fn ext4_walk(data: &[u8]) {
    Target::Ext4Walk.run(&device(data));
}

/// Runs [`Target::Ext4Write`] on an input.
pub fn ext4_write(data: &[u8]) {
    Target::Ext4Write.run(&device(data));
}

/// Runs [`Target::Fat`] on an input.
pub fn fat(data: &[u8]) {
    Target::Fat.run(&device(data));
}

/// Runs [`Target::Btrfs`] on an input.
pub fn btrfs(data: &[u8]) {
    Target::Btrfs.run(&device(data));
}

/// Runs [`Target::Iso9660`] on an input.
pub fn iso9660(data: &[u8]) {
    Target::Iso9660.run(&device(data));
}

/// Runs [`Target::Squashfs`] on an input.
pub fn squashfs(data: &[u8]) {
    Target::Squashfs.run(&device(data));
}

/// Runs [`Target::Erofs`] on an input.
pub fn erofs(data: &[u8]) {
    Target::Erofs.run(&device(data));
}

/// Runs [`Target::Exfat`] on an input.
pub fn exfat(data: &[u8]) {
    Target::Exfat.run(&device(data));
}

/// Runs [`Target::SystemdJournal`] on an input.
pub fn systemd_journal(data: &[u8]) {
    Target::SystemdJournal.run(&device(data));
}

/// Runs [`Target::Guest`] on an input.
pub fn guest(data: &[u8]) {
    Target::Guest.run(&device(data));
}

/// Runs [`Target::Deploy`] on an input.
pub fn deploy(data: &[u8]) {
    Target::Deploy.run(&device(data));
}

/// Runs [`Target::Registry`] on an input.
pub fn registry(data: &[u8]) {
    Target::Registry.run(&device(data));
}

/// Runs [`Target::Remote`] on an input.
pub fn remote(data: &[u8]) {
    Target::Remote.run(&device(data));
}

/// Runs [`Target::Varstore`] on an input.
pub fn varstore(data: &[u8]) {
    Target::Varstore.run(&device(data));
}

/// Runs [`Target::Vmdk`] on an input.
pub fn vmdk(data: &[u8]) {
    Target::Vmdk.run(&device(data));
}

/// Runs [`Target::Xfs`] on an input.
pub fn xfs(data: &[u8]) {
    Target::Xfs.run(&device(data));
}

/// Runs [`Target::Rpm`] on an input.
pub fn rpm(data: &[u8]) {
    Target::Rpm.run(&device(data));
}

/// Runs [`Target::Selinux`] on an input.
pub fn selinux(data: &[u8]) {
    Target::Selinux.run(&device(data));
}

/// Runs [`Target::Etc`] on an input.
pub fn etc(data: &[u8]) {
    Target::Etc.run(&device(data));
}

/// Runs [`Target::Archive`] on an input.
pub fn archive(data: &[u8]) {
    Target::Archive.run(&device(data));
}

/// Runs [`Target::Oci`] on an input.
pub fn oci(data: &[u8]) {
    Target::Oci.run(&device(data));
}

/// Runs [`Target::Ova`] on an input.
pub fn ova(data: &[u8]) {
    Target::Ova.run(&device(data));
}

/// Runs [`Target::Service`] on an input.
pub fn service(data: &[u8]) {
    Target::Service.run(&device(data));
}

/// Runs [`Target::NbdServer`] on an input.
pub fn nbd_server(data: &[u8]) {
    Target::NbdServer.run(&device(data));
}

/// Runs [`Target::NbdClient`] on an input.
pub fn nbd_client(data: &[u8]) {
    Target::NbdClient.run(&device(data));
}
