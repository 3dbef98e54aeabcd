//! The disks: table, volume group, filesystem and image.

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};
use diskfs_ext4::{FormatOptions, JournalOptions};
use diskfs_image::Format;
use diskfs_image::create::Existing;
use diskfs_luks::{Key, NewKdf, Secret};
use diskfs_volume::Guid;
use diskfs_volume::edit::{MbrRole, NewPartition, NewSize, NewTable, PartitionType};
use diskfs_volume::lvm::{LvmId, MetadataOrigin, NewGroup, NewVolume};

use super::super::super::{Disk, DiskOptions, Keys, Volume};
use super::super::{ResizeRequest, ResizeVolume, ShrinkTo};
use crate::{ExfatOptions, FatOptions, NewFilesystem, SwapOptions, WriteOptions};

const MIB: u64 = 1 << 20;
const PASSPHRASE: &[u8] = b"correct horse";
/// The sizes of the disk.
const SMALL_BYTES: u64 = 14 * MIB;
const LARGE_BYTES: u64 = 24 * MIB;

/// The partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Gpt,
    Mbr,
    /// An MBR, with the volume in an extended partition.
    Logical,
    None,
}

/// The layers between the partition and the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Plain,
    Lvm,
    LvmOnLuks,
}

/// The change of the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Grow,
    Shrink,
    ShrinkToMinimum,
}

/// A disk, and the change of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) table: Table,
    pub(super) inside: Inside,
    pub(super) kind: &'static str,
    pub(super) format: Format,
    pub(super) change: Change,
}

const fn case(table: Table, inside: Inside, kind: &'static str, format: Format) -> [Case; 3] {
    let grow = Case {
        table,
        inside,
        kind,
        format,
        change: Change::Grow,
    };
    let shrink = Case {
        change: Change::Shrink,
        ..grow
    };
    let minimum = Case {
        change: Change::ShrinkToMinimum,
        ..grow
    };
    [grow, shrink, minimum]
}

pub(super) const CASES: &[Case] = [
    case(Table::Gpt, Inside::Plain, "ext4", Format::Raw),
    case(Table::Gpt, Inside::Lvm, "ext4", Format::Raw),
    case(Table::Gpt, Inside::Lvm, "ext4", Format::Qcow2),
    case(Table::Gpt, Inside::LvmOnLuks, "ext4", Format::Raw),
    case(Table::Gpt, Inside::Plain, "vfat", Format::Raw),
    case(Table::Gpt, Inside::Plain, "exfat", Format::Qcow2),
    case(Table::Gpt, Inside::Plain, "swap", Format::Raw),
    case(Table::Mbr, Inside::Lvm, "vfat", Format::Raw),
    case(Table::Logical, Inside::Plain, "ext4", Format::Raw),
    case(Table::None, Inside::Lvm, "ext4", Format::Raw),
    case(Table::None, Inside::Plain, "vfat", Format::Qcow2),
]
.as_flattened();

/// Returns the contents of the file on the disk.
pub(super) fn contents() -> Vec<u8> {
    (0..100_000_u32).flat_map(u32::to_le_bytes).collect()
}

impl Case {
    /// Returns the options for reading the disk.
    pub(super) fn reading(&self) -> DiskOptions {
        with_keys(self.format)
    }

    pub(super) fn options(&self) -> DiskOptions {
        self.reading().read_only(false)
    }

    pub(super) fn request(&self) -> ResizeRequest {
        ResizeRequest {
            size: (self.change != Change::ShrinkToMinimum)
                .then_some(NewSize::Bytes(self.new_bytes())),
            volume: ResizeVolume::Named(self.volume().to_owned()),
            shrink: match self.change {
                Change::Grow => None,
                Change::Shrink => Some(ShrinkTo::Size),
                Change::ShrinkToMinimum => Some(ShrinkTo::Minimum),
            },
            ..ResizeRequest::default()
        }
    }

    /// Returns the new size of the disk, of which the smallest one is an upper limit.
    pub(super) fn new_bytes(&self) -> u64 {
        let bytes = match self.change {
            Change::Grow => LARGE_BYTES,
            Change::Shrink | Change::ShrinkToMinimum => SMALL_BYTES,
        };
        bytes + self.overhead_bytes()
    }

    /// Returns the size of what encryption needs.
    pub(super) fn overhead_bytes(&self) -> u64 {
        match self.inside {
            Inside::Plain | Inside::Lvm => 0,
            Inside::LvmOnLuks => diskfs_luks::device_bytes(0),
        }
    }

    pub(super) fn has_lvm(&self) -> bool {
        self.inside != Inside::Plain
    }

    /// Returns the name of the volume with the filesystem.
    pub(super) fn volume(&self) -> &'static str {
        match self.inside {
            Inside::Plain => self.outer(),
            Inside::Lvm | Inside::LvmOnLuks => "vg0/root",
        }
    }

    /// Returns the name of the physical volume.
    pub(super) fn member(&self) -> String {
        match self.inside {
            Inside::Plain | Inside::Lvm => self.outer().to_owned(),
            Inside::LvmOnLuks => format!("{}/luks", self.outer()),
        }
    }

    /// Returns the name of the volume that the table gives.
    fn outer(&self) -> &'static str {
        match self.table {
            Table::Gpt | Table::Mbr => "p2",
            Table::Logical => "p5",
            Table::None => "disk",
        }
    }

    pub(super) fn has_files(&self) -> bool {
        self.kind != "swap"
    }

    /// Returns an image with the disk.
    pub(super) fn build(&self) -> Vec<u8> {
        let old_bytes = match self.change {
            Change::Grow => SMALL_BYTES,
            Change::Shrink | Change::ShrinkToMinimum => LARGE_BYTES,
        } + self.overhead_bytes();
        let memory = Arc::new(Memory::new(vec![0; usize::try_from(old_bytes).unwrap()]));
        let options = with_keys(Format::Raw).read_only(false);
        let open = || options.open_writable_device("disk", memory.clone());
        let mut disk = open().unwrap();
        self.partition(&mut disk);
        if self.inside == Inside::LvmOnLuks {
            encrypt(&disk.volume(self.outer()).unwrap());
            disk.close().unwrap();
            disk = open().unwrap();
        }
        if self.has_lvm() {
            let member = self.member();
            disk.create_volume_group(&group(), &[&member], Existing::Keep)
                .unwrap();
        }
        let volume = disk.volume(self.volume()).unwrap();
        volume
            .format(&self.filesystem(), Existing::Replace)
            .unwrap();
        drop(volume);
        disk.close().unwrap();
        if self.has_files() {
            self.fill(&options, memory.clone());
        }
        self.in_format(&memory)
    }

    /// Writes a file, at the end of the filesystem if that shrinks.
    fn fill(&self, options: &DiskOptions, memory: Arc<Memory>) {
        let disk = options.open_writable_device("disk", memory).unwrap();
        let volume = disk.volume(self.volume()).unwrap();
        let fs = volume
            .writable_filesystem(&WriteOptions::default())
            .unwrap();
        let filler = match self.change {
            Change::Grow => 1024,
            Change::Shrink | Change::ShrinkToMinimum => 12 * MIB,
        };
        let filler = vec![b'f'; usize::try_from(filler).unwrap()];
        fs.write("/filler", filler).unwrap();
        fs.write("/file", contents()).unwrap();
        fs.remove("/filler").unwrap();
        fs.close().unwrap();
        drop((fs, volume));
        disk.close().unwrap();
    }

    fn partition(&self, disk: &mut Disk) {
        let table = match self.table {
            Table::Gpt => NewTable::Gpt {
                guid: Guid::from_u128(1),
            },
            Table::Mbr | Table::Logical => NewTable::Mbr { signature: 7 },
            Table::None => return,
        };
        disk.create_partition_table(table, Existing::Keep, None)
            .unwrap();
        let linux = NewPartition {
            number: None,
            start_bytes: None,
            size_bytes: Some(MIB),
            partition_type: PartitionType::LINUX,
            name: String::new(),
            guid: Guid::from_u128(2),
            flags: Vec::new(),
            role: None,
        };
        let rest = NewPartition {
            size_bytes: None,
            guid: Guid::from_u128(3),
            ..linux.clone()
        };
        let extended = NewPartition {
            partition_type: "extended".parse().unwrap(),
            ..rest.clone()
        };
        let logical = NewPartition {
            role: Some(MbrRole::Logical),
            ..rest.clone()
        };
        let partitions = match self.table {
            Table::Logical => vec![linux, extended, logical],
            _ => vec![linux, rest],
        };
        for partition in partitions {
            disk.edit_partitions(None, |editor| editor.add(&partition))
                .unwrap();
        }
    }

    fn filesystem(&self) -> NewFilesystem {
        match self.kind {
            "ext4" => NewFilesystem::Ext(Box::new(FormatOptions {
                block_bytes: Some(1024),
                blocks_per_group: Some(2048),
                journal: JournalOptions {
                    size_mib: Some(1),
                    ..JournalOptions::default()
                },
                ..FormatOptions::default()
            })),
            "vfat" => NewFilesystem::Fat(FatOptions::default()),
            "exfat" => NewFilesystem::Exfat(ExfatOptions::default()),
            _ => NewFilesystem::Swap(SwapOptions::default()),
        }
    }

    /// Returns the image of the disk in the format of the case.
    fn in_format(&self, disk: &Memory) -> Vec<u8> {
        if self.format == Format::Raw {
            return disk.to_vec();
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw");
        std::fs::write(&path, disk.to_vec()).unwrap();
        let made = directory.path().join("qcow2");
        let words = "convert -f raw -O qcow2 -o cluster_size=4k".split(' ');
        let words = words.map(std::path::Path::new).chain([&*path, &*made]);
        diskfs_fixtures::run("qemu-img", words).unwrap();
        std::fs::read(made).unwrap()
    }
}

fn with_keys(format: Format) -> DiskOptions {
    let keys = Keys::default().with_all(Key::passphrase(PASSPHRASE));
    Disk::options().format(format).keys(keys)
}

fn encrypt(volume: &Volume) {
    let options = diskfs_luks::FormatOptions {
        uuid: "6d9a3c5e-0000-4000-8000-00000000c0de".to_owned(),
        kdf: NewKdf::Pbkdf2 { iterations: 1000 },
        ..diskfs_luks::FormatOptions::default()
    };
    let secret = Secret::new(PASSPHRASE.to_vec());
    let device = volume.writable_device().unwrap();
    let random = &mut |bytes: &mut [u8]| {
        let numbers = (0..=u8::MAX).cycle().skip(7);
        bytes
            .iter_mut()
            .zip(numbers)
            .for_each(|(byte, number)| *byte = number);
        Ok(())
    };
    diskfs_luks::format(&*device, &secret, &options, random).unwrap();
}

fn group() -> NewGroup {
    let id = |number| LvmId::from_random([number; 32]);
    NewGroup {
        name: "vg0".to_owned(),
        id: id(1),
        physical_volumes: vec![id(2)],
        extent_bytes: MIB,
        volumes: vec![NewVolume {
            name: "root".to_owned(),
            id: id(3),
            size: NewSize::Largest,
        }],
        origin: MetadataOrigin {
            host: "builder".to_owned(),
            time_seconds: 0,
            description: String::new(),
        },
    }
}

/// Copies a device to a file.
pub(super) fn copy_out(device: &dyn BlockRead, to: &std::path::Path) {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    std::fs::write(to, bytes).unwrap();
}
