//! New UUIDs of groups and physical volumes, also after crashes at each write, checked with LVM's
//! tools.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, Fate, Faulty, Memory, Result, Slice};
use diskfs_fixtures::{Lvm, Part, require, require_root};
use diskfs_volume::lvm::{LvmId, NewIds, PhysicalVolume, PvEntry, VolumeGroup, volume_groups};

use crate::disk::{self, Pv, group_text, linear, volume_text};

const MIB: u64 = 1 << 20;

/// The size of each physical volume, which are consecutive on one device.
const PV_BYTES: u64 = 4 * MIB;

/// Parts of one device as physical volumes.
struct Machine<D: BlockRead + ?Sized> {
    parts: Vec<Arc<Slice<D>>>,
    physical: Vec<PhysicalVolume>,
    groups: Vec<VolumeGroup>,
}

impl<D: BlockRead + ?Sized> Machine<D> {
    fn new(device: &Arc<D>) -> Self {
        let starts = (0..device.size_bytes()).step_by(usize::try_from(PV_BYTES).unwrap());
        let part = |start| Arc::new(Slice::new(Arc::clone(device), start, PV_BYTES).unwrap());
        let parts: Vec<_> = starts.map(part).collect();
        let physical = parts.iter();
        let physical: Vec<_> = physical
            .map(|part| PhysicalVolume::read(&**part).unwrap().unwrap())
            .collect();
        let groups = volume_groups(&physical);
        Self {
            parts,
            physical,
            groups,
        }
    }

    fn find(&self, entry: &PvEntry) -> Option<Arc<Slice<D>>> {
        let index = self.physical.iter().position(|it| it.id == entry.id)?;
        Some(Arc::clone(&self.parts[index]))
    }

    fn open(&self, name: &str) -> Vec<u8> {
        let [group] = &self.groups[..] else {
            panic!("{:?}", self.groups)
        };
        let volume = group.logical_volume(name).expect(name);
        let find = |entry: &PvEntry| Ok(self.find(entry));
        disk::contents(&group.open(volume, &find).unwrap())
    }

    fn ids(&self) -> BTreeSet<String> {
        let groups = self.groups.iter().map(|group| group.id);
        let ids = groups.chain(self.physical.iter().map(|it| it.id));
        ids.map(|id| id.to_string()).collect()
    }
}

fn new_ids(group: &VolumeGroup, seed: u8) -> NewIds {
    let id = |number: usize| {
        let number = u8::try_from(number).unwrap();
        LvmId::from_random(std::array::from_fn(|n| {
            seed.wrapping_mul(31) ^ number ^ u8::try_from(n).unwrap()
        }))
    };
    let physical = group.physical_volumes.iter().enumerate();
    NewIds {
        group: id(100),
        physical: physical.map(|(n, entry)| (entry.id, id(n))).collect(),
    }
}

fn change<D: BlockWrite + 'static>(device: &Arc<D>, seed: u8) -> Result<NewIds> {
    let machine = Machine::new(device);
    let group = &machine.groups[0];
    let ids = new_ids(group, seed);
    group.change_ids(&ids, &|entry| {
        Ok(machine.find(entry).map(|it| it as Arc<dyn BlockWrite>))
    })?;
    Ok(ids)
}

/// Builds three physical volumes, one of them with two areas, and a volume on all of them.
fn three() -> Vec<u8> {
    let segments = ["pv0", "pv1", "pv2"].map(|pv| linear(pv, 1));
    let segments = segments.each_ref().map(|text| (2, &**text));
    let text = group_text(7, &['a', 'b', 'c'], &volume_text("root", &segments));
    let mut disks = ['a', 'b', 'c'].map(|letter| Pv::new(letter, &text));
    let second = (3 * 1024 * 1024 + 700 * 1024, 32 << 10, 512, text);
    disks[1].areas.push(second);
    let mut bytes = disks.map(|disk| disk.bytes()).concat();
    for (n, byte) in bytes.iter_mut().enumerate() {
        let at = n as u64 % PV_BYTES;
        if (disk::PE_START..disk::PE_START + 3 * disk::EXTENT).contains(&at) {
            *byte = u8::try_from(n / 512 % 251).unwrap();
        }
    }
    bytes
}

#[test]
fn everything_but_the_identities_is_kept() {
    let device = Arc::new(Memory::new(three()));
    let before = Machine::new(&device);
    let ids = change(&device, 1).unwrap();
    let after = Machine::new(&device);
    assert_eq!(after.groups[0].id, ids.group);
    for (physical, (_, new)) in after.physical.iter().zip(&ids.physical) {
        assert_eq!(physical.id, *new);
        assert!(physical.warnings.is_empty());
        // Each area has the newest text.
        assert_eq!(physical.group.as_ref(), Some(&after.groups[0]));
    }
    assert_eq!(after.groups[0].seqno, 7 + 3);
    let volumes = |machine: &Machine<Memory>| machine.groups[0].logical_volumes.clone();
    assert_eq!(volumes(&after), volumes(&before));
    assert_eq!(after.open("root"), before.open("root"));
    assert!(after.ids().is_disjoint(&before.ids()));
    // Repeated changes wrap around in the areas.
    for seed in 2..40 {
        change(&device, seed).unwrap();
        assert_eq!(Machine::new(&device).open("root"), before.open("root"));
    }
}

#[test]
fn any_crash_leaves_a_group_that_is_read() {
    let bytes = three();
    let wanted = Machine::new(&Arc::new(Memory::new(bytes.clone()))).open("root");
    let device = Arc::new(Faulty::new(Arc::new(Memory::new(bytes.clone())), []));
    change(&device, 1).unwrap();
    let log = device.log();
    assert!(log.events().len() > 20);
    for crash in log.crashes() {
        for fate in [Fate::Kept, Fate::Lost] {
            let left = Arc::new(Memory::new(bytes.clone()));
            crash.replay(&*left, |_, _| fate).unwrap();
            let machine = Machine::new(&left);
            assert_eq!(machine.open("root"), wanted);
            // Repeating the operation completes it.
            change(&left, 9).unwrap();
            assert_eq!(Machine::new(&left).open("root"), wanted);
        }
    }
}

#[test]
fn what_guards_a_group_refuses_before_the_first_write() {
    let text = |from: &str, to: &str| {
        let text = group_text(1, &['a'], &volume_text("root", &[(1, &linear("pv0", 0))]));
        assert!(text.contains(from));
        Pv::new('a', &text.replacen(from, to, 1)).bytes()
    };
    let full = |size| {
        let text = group_text(1, &['a'], "");
        let mut pv = Pv::new('a', &text);
        pv.areas[0].1 = size;
        pv.bytes()
    };
    let status = "\"RESIZEABLE\", \"READ\", \"WRITE\"";
    let unsupported = ErrorKind::Unsupported;
    let marked = |mark: &str| text(status, &format!("{status}, \"{mark}\""));
    let missing = text("[\"ALLOCATABLE\"]", "[\"MISSING\"]");
    let of_two = Pv::new('a', &group_text(1, &['a', 'b'], "")).bytes();
    let mut broken = text("vg", "vg");
    broken[4096 + 100] ^= 1;
    for (part, kind, disk) in [
        ("EXPORTED", unsupported, marked("EXPORTED")),
        ("CLUSTERED", unsupported, marked("CLUSTERED")),
        ("QUANTUM", unsupported, marked("QUANTUM")),
        ("read-only", unsupported, text(", \"WRITE\"", "")),
        (
            "sanlock",
            unsupported,
            text("extent_size", "lock_type = \"sanlock\"\nextent_size"),
        ),
        ("no space", unsupported, full(2048)),
        ("missing physical volume", ErrorKind::NotFound, missing),
        ("missing physical volume", ErrorKind::NotFound, of_two),
        (
            "overlaps",
            ErrorKind::Corrupt,
            text("pe_start = 2048", "pe_start = 100"),
        ),
        (
            "seqno",
            unsupported,
            text("seqno = 1", "seqno = 4294967295"),
        ),
    ] {
        let device = Arc::new(Memory::new(disk.clone()));
        let error = change(&device, 1).unwrap_err();
        assert!(error.reason().contains(part), "{part}: {error}");
        assert!(error.reason().contains("volume group vg"), "{error}");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(device.to_vec() == disk, "{part}");
    }
    // Metadata that LVM has to repair: the group is known by its second area.
    let text = group_text(1, &['a'], "");
    let mut pv = Pv::new('a', &text);
    pv.areas.push((3 << 20, 64 << 10, 512, text));
    pv.areas.swap(0, 1);
    let mut disk = pv.bytes();
    disk[4096 + 100] ^= 1;
    let device = Arc::new(Memory::new(disk.clone()));
    let error = change(&device, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(device.to_vec() == disk);
}

/// A file with consecutive physical volumes, and LVM on it.
struct Rig {
    _directory: tempfile::TempDir,
    path: PathBuf,
    lvm: Lvm,
}

impl Rig {
    fn new(count: u64) -> Option<Self> {
        require_root()?;
        require("lvm")?;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        fs::File::create(&path)
            .and_then(|file| file.set_len(count * PV_BYTES))
            .unwrap();
        let part = |number| Part {
            image: Path::new(&path),
            start_bytes: number * PV_BYTES,
            len_bytes: Some(PV_BYTES),
        };
        let parts: Vec<_> = (0..count).map(part).collect();
        let lvm = Lvm::new(&parts).unwrap();
        Some(Self {
            _directory: directory,
            path,
            lvm,
        })
    }

    fn device(&self) -> Arc<Memory> {
        Arc::new(Memory::new(fs::read(&self.path).unwrap()))
    }

    fn put(&self, device: &Memory) {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(&device.to_vec(), 0).unwrap();
        file.sync_all().unwrap();
    }

    /// Returns LVM's reports, without the UUIDs that change.
    fn told(&self) -> Vec<serde_json::Value> {
        let pvs = "pv_name,vg_name,pv_size,pv_free,pe_start,pv_mda_count,pv_ba_size,pv_allocatable";
        let lvs = "lv_name,lv_uuid,lv_size,seg_start,segtype,devices";
        let vgs = "vg_name,vg_attr,vg_extent_size,vg_missing_pv_count,vg_free";
        let reports = [("pvs", pvs), ("lvs -a --segments", lvs), ("vgs", vgs)];
        let reports = reports.map(|(command, fields)| self.lvm.report(command, fields).unwrap());
        reports.concat()
    }

    fn uuids(&self) -> BTreeSet<String> {
        let pvs = self.lvm.report("pvs", "pv_uuid").unwrap();
        let vgs = self.lvm.report("vgs", "vg_uuid").unwrap();
        let rows = pvs.iter().chain(&vgs);
        let uuid = |row: &serde_json::Value| {
            let row = row.as_object().unwrap();
            row.values().next().unwrap().as_str().unwrap().to_owned()
        };
        rows.map(uuid).collect()
    }

    /// Checks that the group is consistent for LVM, in each of its metadata areas.
    fn check(&self, parts: usize) {
        self.lvm.run("vgck vg").unwrap();
        for number in 0..parts {
            self.lvm
                .run(&format!("pvck --dump headers @{number}"))
                .unwrap();
        }
    }
}

#[test]
fn lvm_takes_the_group_as_its_own() {
    let Some(rig) = Rig::new(4) else { return };
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    lvm(
        "pvcreate -q --labelsector 3 --metadatasize 32k --dataalignment 4k --pvmetadatacopies 2 @0",
    );
    lvm("pvcreate -q --metadatasize 32k --bootloaderareasize 64k @1");
    lvm("pvcreate -q --pvmetadatacopies 0 @2");
    lvm("pvcreate -q --metadatasize 32k @3");
    lvm("pvchange -q --metadataignore y @3");
    lvm("vgcreate -q -s 64k vg @0 @1 @2 @3");
    lvm("lvcreate -q -an -Zn -Wn -n root -l 30 -i 3 -I 4k vg");
    let (told, uuids) = (rig.told(), rig.uuids());
    let mut seen = uuids.clone();
    for seed in 1..5 {
        let device = rig.device();
        let ids = change(&device, seed).unwrap();
        rig.put(&device);
        rig.check(4);
        assert_eq!(rig.told(), told);
        let uuids = rig.uuids();
        assert!(uuids.contains(&ids.group.to_string()), "{uuids:?}");
        assert!(uuids.is_disjoint(&seen), "{uuids:?}");
        seen.extend(uuids);
        // LVM continues with the metadata that we wrote.
        lvm("lvcreate -q -an -Zn -Wn -n more -l 1 vg");
        lvm("lvremove -q -y vg/more");
        assert_eq!(rig.told(), told);
    }
}

#[test]
fn lvm_reads_what_a_crash_leaves() {
    let Some(rig) = Rig::new(2) else { return };
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    lvm("pvcreate -q --metadatasize 64k --pvmetadatacopies 2 @0");
    lvm("pvcreate -q --metadatasize 64k @1");
    lvm("vgcreate -q -s 64k vg @0 @1");
    lvm("lvcreate -q -an -Zn -Wn -n root -l 20 -i 2 -I 4k vg");
    let vgs = "vgs --noheadings -o vg_name,pv_count,vg_missing_pv_count,lv_count";
    let told = lvm(vgs);
    let before = rig.device();
    let device = Arc::new(Faulty::new(Arc::new(Memory::new(before.to_vec())), []));
    change(&device, 1).unwrap();
    let log = device.log();
    let is_write = |count: &usize| {
        let event = count.checked_sub(1).and_then(|last| log.events().get(last));
        event.is_none_or(|event| event.len_bytes() > 0)
    };
    for count in (0..=log.events().len()).filter(is_write) {
        let left = Memory::new(before.to_vec());
        let crash = log.crash_after(count);
        crash.replay(&left, |_, _| Fate::Kept).unwrap();
        rig.put(&left);
        assert_eq!(lvm(vgs), told, "after {count} events");
        lvm("vgck vg");
    }
}
