//! resize: growing and shrinking disks with partitions, LUKS, LVM and filesystems in any order. The
//! layers are built by other programs, and judged by them afterwards.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use diskfs::block::{BlockWrite, File};
use diskfs::luks::{Header, Key, Limits, Unlocked};
use diskfs::{Disk, Keys, Volume};
use diskfs_fixtures::{Lvm, Part, have, require_root};
use serde_json::Value;

use crate::diskfs_in;

const MIB: u64 = 1 << 20;
/// The environment variable that runs all combinations instead of a sample.
const ALL: &str = "DISKFS_RESIZE_STACKS";
const PASSPHRASE: &[u8] = b"correct horse";
/// The size of the filesystem before.
const FS_BYTES: u64 = 40 * MIB;
/// The number of bytes that the disk grows by.
const MORE_BYTES: u64 = 64 * MIB;

/// The layers between the partition and the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Plain,
    Luks,
    Lvm,
    LvmOnLuks,
    LuksOnLv,
}

/// The partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Gpt,
    Mbr,
    Logical,
    None,
}

/// A kind of filesystem: its name in diskfs, the command that makes it, and the one that checks it.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    make: &'static str,
    check: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "ext4",
        make: "mke2fs -qF -t ext4",
        check: "e2fsck -fn",
    },
    Kind {
        name: "ext2",
        make: "mke2fs -qF -t ext2 -b 1024",
        check: "e2fsck -fn",
    },
    Kind {
        name: "vfat",
        make: "mkfs.vfat -F 32 -s 1",
        check: "fsck.vfat -n",
    },
    Kind {
        name: "exfat",
        make: "mkfs.exfat",
        check: "fsck.exfat -n",
    },
    Kind {
        name: "swap",
        make: "mkswap -q",
        check: "swaplabel",
    },
];

/// Runs a shell script, which must succeed, and returns what it wrote.
pub(crate) fn shell(directory: &Path, script: &str) -> String {
    let mut command = diskfs_fixtures::command("sh");
    let command = command.args(["-ec", script]).current_dir(directory);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}{errors}");
    said
}

/// A disk with several layers.
#[derive(Debug, Clone, Copy)]
struct Stack {
    format: &'static str,
    table: Table,
    inside: Inside,
    kind: Kind,
}

impl Stack {
    /// Builds the disk from the inside to the outside, as `disk.img`.
    fn build(&self, directory: &Path) {
        let at = |name: &str| directory.join(name);
        sized(&at("inner"), FS_BYTES);
        shell(directory, &format!("{} inner", self.kind.make));
        fs::write(at("file"), contents()).unwrap();
        if self.has_files() {
            diskfs_in(directory, &["cp", "file", "inner:/file"]).bytes();
        }
        match self.inside {
            Inside::Plain => {}
            Inside::Luks => encrypt(directory),
            Inside::Lvm => put_on_lvm(directory),
            Inside::LvmOnLuks => {
                put_on_lvm(directory);
                encrypt(directory);
            }
            Inside::LuksOnLv => {
                encrypt(directory);
                put_on_lvm(directory);
            }
        }
        self.put_on_table(directory);
        let convert = format!(
            "qemu-img convert -f raw -O {} disk.raw disk.img",
            self.format
        );
        shell(directory, &convert);
    }

    fn put_on_table(&self, directory: &Path) {
        let sectors = directory.join("inner").metadata().unwrap().len() / 512;
        let script = match self.table {
            Table::None => {
                return fs::rename(directory.join("inner"), directory.join("disk.raw")).unwrap();
            }
            Table::Gpt => format!("label: gpt\n2048,{sectors},L\n"),
            Table::Mbr => format!("label: dos\n2048,{sectors},L\n"),
            Table::Logical => format!("label: dos\n2048,{},E\n4096,{sectors},L\n", sectors + 2048),
        };
        let start_sectors = if self.table == Table::Logical {
            4096
        } else {
            2048
        };
        sized(
            &directory.join("disk.raw"),
            (sectors + start_sectors + 2048) * 512,
        );
        shell(
            directory,
            &format!(
                "printf '{script}' | sfdisk -q disk.raw; \
                 dd if=inner of=disk.raw bs=512 seek={start_sectors} conv=notrunc,sparse status=none"
            ),
        );
    }

    /// Returns the name of the volume with the filesystem.
    fn volume(&self) -> String {
        let outer = match self.table {
            Table::Gpt | Table::Mbr => "p1",
            Table::Logical => "p5",
            Table::None => "disk",
        };
        match self.inside {
            Inside::Plain => outer.to_owned(),
            Inside::Luks => format!("{outer}/luks"),
            Inside::Lvm | Inside::LvmOnLuks => "vg0/root".to_owned(),
            Inside::LuksOnLv => "vg0/root/luks".to_owned(),
        }
    }

    /// Returns the words that unlock the volume.
    fn keys(&self) -> Vec<String> {
        match self.inside {
            Inside::Plain | Inside::Lvm => Vec::new(),
            _ => vec!["--key".to_owned(), "all:file:key".to_owned()],
        }
    }

    fn has_files(&self) -> bool {
        self.kind.name != "swap"
    }

    fn words<'a>(&'a self, words: &[&'a str], keys: &'a [String]) -> Vec<&'a str> {
        let mut all = vec![words[0], "--format", self.format];
        all.extend(keys.iter().map(String::as_str));
        all.extend(&words[1..]);
        all
    }

    /// Grows the disk and judges all layers.
    fn grow(&self, directory: &Path) {
        let keys = self.keys();
        let volume = self.volume();
        let size = format!("+{MORE_BYTES}");
        let words = ["resize", "--json", "--volume", &volume, "disk.img", &size];
        let before = fs::read(directory.join("disk.img")).unwrap();
        let dry = [&["resize", "--json", "--dry-run"], &words[2..]].concat();
        let planned = diskfs_in(directory, &self.words(&dry, &keys)).json();
        assert!(before == fs::read(directory.join("disk.img")).unwrap());
        let done = diskfs_in(directory, &self.words(&words, &keys)).json();
        assert_eq!(planned["steps"], done["steps"], "{self:?}");
        self.judge(directory, &done);
        let before = fs::read(directory.join("disk.img")).unwrap();
        let again = ["resize", "--json", "--volume", &volume, "disk.img"];
        let again = diskfs_in(directory, &self.words(&again, &keys)).json();
        assert_eq!(again["changed"], false, "{again}");
        assert!(before == fs::read(directory.join("disk.img")).unwrap());
    }

    /// Shrinks the disk to its minimum and judges all layers.
    fn shrink(&self, directory: &Path) {
        let keys = self.keys();
        let volume = self.volume();
        let words = [
            "resize",
            "--json",
            "--shrink-to-minimum",
            "--volume",
            &volume,
            "disk.img",
        ];
        let before = fs::read(directory.join("disk.img")).unwrap();
        let dry = [&["resize", "--dry-run"], &words[1..]].concat();
        diskfs_in(directory, &self.words(&dry, &keys)).json();
        assert!(before == fs::read(directory.join("disk.img")).unwrap());
        let done = diskfs_in(directory, &self.words(&words, &keys)).json();
        let steps = done["steps"].as_array().unwrap();
        let layers = [steps.first(), steps.last()].map(|step| &step.unwrap()["step"]);
        assert_eq!(layers, ["filesystem", "image"], "{done}");
        let disk = self.judge_layers(directory);
        // The grown filesystem has 104 MiB.
        let size = disk.volume(&self.volume()).unwrap().size_bytes();
        assert!(size < 80 * MIB, "{self:?}: {done}");
        if let Some((lvm, _)) = Self::judged_group(directory, &disk) {
            let physical = lvm.report("pvs", "pv_free").unwrap();
            assert_eq!(physical[0]["pv_free"], "0", "{physical:?}");
        }
    }

    /// Judges a disk that has grown.
    fn judge(&self, directory: &Path, done: &Value) {
        let disk = self.judge_layers(directory);
        let volume = disk.volume(&self.volume()).unwrap();
        // Alignment, the tables and a last block group without room for data take a little.
        let least = FS_BYTES + MORE_BYTES - 10 * MIB;
        assert!(volume.size_bytes() > least, "{self:?}: {done}");
        let steps = done["steps"].as_array().unwrap();
        let last = steps.last().unwrap();
        assert_eq!(last["step"], "filesystem", "{done}");
        assert!(
            last["to_bytes"].as_u64().unwrap() > least,
            "{self:?}: {done}"
        );
        self.judge_group(directory, &disk, volume.size_bytes());
    }

    /// Judges the image, the table and the filesystem by other programs.
    fn judge_layers(&self, directory: &Path) -> Disk {
        if self.format == "qcow2" {
            shell(directory, "qemu-img check -q disk.img");
        }
        let format = self.format;
        let convert = format!("qemu-img convert -f {format} -O raw disk.img after.raw");
        shell(directory, &convert);
        match self.table {
            Table::Gpt => {
                let said = shell(directory, "sfdisk --verify after.raw; sgdisk -v after.raw");
                assert!(said.contains("No problems found"), "{said}");
            }
            Table::Mbr | Table::Logical => {
                shell(directory, "sfdisk --verify after.raw");
            }
            Table::None => {}
        }
        let disk = open(&directory.join("after.raw"));
        let volume = disk.volume(&self.volume()).unwrap();
        copy_out(&volume, &directory.join("inner"));
        shell(directory, &format!("{} inner", self.kind.check));
        if self.has_files() {
            let read = diskfs_in(directory, &["cat", "inner:/file"]);
            assert!(read.bytes() == contents(), "{self:?}");
        }
        disk
    }

    /// Lets LVM's tools check the volume group, and returns them with the size of the logical
    /// volume; `None` without a group.
    fn judged_group(directory: &Path, disk: &Disk) -> Option<(Lvm, Value)> {
        let group = disk.groups().unwrap().first()?;
        let entry = &group.metadata().physical_volumes[0];
        let member = group.member(&entry.id).unwrap();
        copy_out(member, &directory.join("pv"));
        let lvm = Lvm::new(&[Part {
            image: &directory.join("pv"),
            start_bytes: 0,
            len_bytes: None,
        }])
        .unwrap();
        lvm.run("vgck vg0").unwrap();
        lvm.run("pvck @0").unwrap();
        let volumes = lvm.report("lvs vg0", "lv_name,lv_size").unwrap();
        let size = volumes[0]["lv_size"].clone();
        Some((lvm, size))
    }

    /// Compares the volume group with what LVM's tools say of it.
    fn judge_group(&self, directory: &Path, disk: &Disk, volume_bytes: u64) {
        let Some((lvm, lv_size)) = Self::judged_group(directory, disk) else {
            return;
        };
        if self.inside != Inside::LuksOnLv {
            assert_eq!(lv_size, volume_bytes.to_string(), "{self:?}");
        }
        let physical = lvm.report("pvs", "pv_size,dev_size,pv_free").unwrap();
        let size = |field: &str| physical[0][field].as_str().unwrap().parse::<u64>().unwrap();
        assert!(size("pv_size") + 3 * MIB > size("dev_size"), "{physical:?}");
        assert_eq!(size("pv_free"), 0, "{physical:?}");
    }
}

fn open(path: &Path) -> Disk {
    let keys = Keys::default().with_all(Key::passphrase(PASSPHRASE));
    Disk::options().keys(keys).open(path).unwrap()
}

fn contents() -> Vec<u8> {
    (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn sized(path: &Path, size_bytes: u64) {
    let _ = fs::remove_file(path);
    fs::File::create(path).unwrap().set_len(size_bytes).unwrap();
}

fn copy_out(volume: &Volume, to: &Path) {
    let device = volume.device().unwrap();
    sized(to, device.size_bytes());
    let file = fs::File::options().write(true).open(to).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < device.size_bytes() {
        let len = (device.size_bytes() - at).min(buffer.len() as u64);
        let piece = &mut buffer[..usize::try_from(len).unwrap()];
        device.read_at(at, piece).unwrap();
        if piece.iter().any(|&byte| byte != 0) {
            file.write_all_at(piece, at).unwrap();
        }
        at += len;
    }
}

/// Replaces `inner` by an encrypted volume that contains it.
fn encrypt(directory: &Path) {
    let at = |name: &str| directory.join(name);
    let plain = fs::read(at("inner")).unwrap();
    sized(&at("luks"), plain.len() as u64 + 2 * MIB);
    fs::write(at("key"), PASSPHRASE).unwrap();
    shell(
        directory,
        "cryptsetup --batch-mode luksFormat --type luks1 --key-file key --pbkdf-force-iterations 1000 luks",
    );
    let device = Arc::new(File::open_read_write(at("luks")).unwrap());
    let header = Header::read(&*device).unwrap().unwrap();
    let key = Key::passphrase(PASSPHRASE);
    let key = header.unlock(&*device, &key, &Limits::default()).unwrap();
    let unlocked = Unlocked::new(device, &header, &key).unwrap();
    unlocked.write_at(0, &plain).unwrap();
    fs::rename(at("luks"), at("inner")).unwrap();
}

/// Replaces `inner` by a physical volume with a logical one that contains it.
fn put_on_lvm(directory: &Path) {
    let at = |name: &str| directory.join(name);
    let plain = fs::read(at("inner")).unwrap();
    let extents = (plain.len() as u64).div_ceil(MIB);
    sized(&at("pv"), (extents + 2) * MIB);
    {
        let lvm = Lvm::new(&[Part {
            image: &at("pv"),
            start_bytes: 0,
            len_bytes: None,
        }])
        .unwrap();
        lvm.run("vgcreate -qq -s 1m vg0 @0").unwrap();
        let create = format!("lvcreate -qq -an -Zn -Wn -l {extents} -n root vg0");
        lvm.run(&create).unwrap();
        let physical = lvm.report("pvs", "pe_start").unwrap();
        assert_eq!(physical[0]["pe_start"], MIB.to_string());
    }
    let file = fs::File::options().write(true).open(at("pv")).unwrap();
    file.write_all_at(&plain, MIB).unwrap();
    fs::rename(at("pv"), at("inner")).unwrap();
}

fn all() -> Vec<Stack> {
    let mut all = Vec::new();
    for format in ["raw", "qcow2"] {
        for table in [Table::Gpt, Table::Mbr, Table::Logical, Table::None] {
            for inside in [
                Inside::Plain,
                Inside::Luks,
                Inside::Lvm,
                Inside::LvmOnLuks,
                Inside::LuksOnLv,
            ] {
                let stack = |kind| Stack {
                    format,
                    table,
                    inside,
                    kind,
                };
                all.extend(KINDS.iter().copied().map(stack));
            }
        }
    }
    all
}

#[test]
fn every_stack_grows_and_shrinks() {
    if !have(&[
        "mke2fs",
        "e2fsck",
        "sfdisk",
        "sgdisk",
        "qemu-img",
        "cryptsetup",
        "lvm",
        "mkfs.vfat",
        "mkfs.exfat",
    ]) || require_root().is_none()
    {
        return;
    }
    let all = all();
    // A step without common factors reaches every value of each property.
    let step = if std::env::var_os(ALL).is_some() {
        1
    } else {
        37
    };
    for stack in all.iter().step_by(step) {
        let directory = tempfile::tempdir().unwrap();
        stack.build(directory.path());
        stack.grow(directory.path());
        stack.shrink(directory.path());
    }
}
