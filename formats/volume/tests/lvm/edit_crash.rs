//! Changes of groups that are built byte by byte, with a crash at each write.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Faulty, Memory, Result, Slice};
use diskfs_volume::edit::NewSize;
use diskfs_volume::lvm::{
    GroupEditor, LvmId, NewVolume, PhysicalVolume, PvEntry, VolumeGroup, volume_groups,
};

use crate::disk::{self, EXTENT, Pv, contents, group_text, linear, volume_text};

const MIB: u64 = 1 << 20;

/// The size of each physical volume, which are consecutive on one device.
const PV_BYTES: u64 = 4 * MIB;

/// Parts of one device as physical volumes.
struct Machine<D: BlockRead + ?Sized> {
    parts: Vec<Arc<Slice<D>>>,
    physical: Vec<PhysicalVolume>,
    group: VolumeGroup,
}

impl<D: BlockRead + ?Sized> Machine<D> {
    fn new(device: &Arc<D>) -> Self {
        let starts = (0..device.size_bytes()).step_by(usize::try_from(PV_BYTES).unwrap());
        let part = |start| Arc::new(Slice::new(Arc::clone(device), start, PV_BYTES).unwrap());
        let parts: Vec<_> = starts.map(part).collect();
        let physical: Vec<_> = parts
            .iter()
            .map(|part| PhysicalVolume::read(&**part).unwrap().unwrap())
            .collect();
        let group = volume_groups(&physical).remove(0);
        Self {
            parts,
            physical,
            group,
        }
    }

    fn find(&self, entry: &PvEntry) -> Option<Arc<Slice<D>>> {
        let index = self.physical.iter().position(|it| it.id == entry.id)?;
        Some(Arc::clone(&self.parts[index]))
    }

    fn open(&self, name: &str) -> Vec<u8> {
        let volume = self.group.logical_volume(name).expect(name);
        let find = |entry: &PvEntry| Ok(self.find(entry));
        contents(&self.group.open(volume, &find).unwrap())
    }

    /// Checks that all areas and labels are up to date.
    fn is_complete(&self) -> bool {
        self.physical.iter().zip(&self.parts).all(|(pv, part)| {
            let mut label = vec![0; 512];
            part.read_at(512, &mut label).unwrap();
            let count = |at: usize| u64::from_le_bytes(label[at..at + 8].try_into().unwrap());
            // The areas after the data area.
            let areas = [104, 120].map(count);
            let texts = areas.iter().filter(|area| **area != 0).all(|area| {
                let mut locn = vec![0; 24];
                part.read_at(area + 40, &mut locn).unwrap();
                let at = u64::from_le_bytes(locn[..8].try_into().unwrap());
                let len = u64::from_le_bytes(locn[8..16].try_into().unwrap());
                let mut text = vec![0; usize::try_from(len).unwrap()];
                // The texts of these tests do not wrap around.
                part.read_at(area + at, &mut text).unwrap();
                let seqno = format!("\nseqno = {}\n", self.group.seqno);
                String::from_utf8(text).unwrap().contains(&seqno)
            });
            pv.group.as_ref() == Some(&self.group) && texts
        })
    }
}

type Change<'c> = &'c dyn Fn(&mut GroupEditor) -> Result<()>;

fn edit<D: BlockWrite + 'static>(device: &Arc<D>, change: Change<'_>) -> Result<bool> {
    let machine = Machine::new(device);
    let group = &machine.group;
    let mut editor =
        group.editor(&|entry| Ok(machine.find(entry).map(|it| it as Arc<dyn BlockRead>)))?;
    change(&mut editor)?;
    editor.write(&|entry| Ok(machine.find(entry).map(|it| it as Arc<dyn BlockWrite>)))
}

/// Builds three physical volumes of 40 extents, whose devices have space for 47 or 48. The second
/// one has a metadata area after its extents.
fn three() -> Vec<u8> {
    let segments = [linear("pv0", 1), linear("pv1", 1), linear("pv2", 3)];
    let segments = segments.each_ref().map(|text| (2, &**text));
    let striped = "type = \"striped\" stripe_count = 2 stripe_size = 8 \
                   stripes = [ \"pv0\", 10, \"pv2\", 20 ]";
    let logical = volume_text("root", &segments)
        + &volume_text("data", &[(6, striped)]).replace("LLLL", "MMMM");
    let text = group_text(7, &['a', 'b', 'c'], &logical);
    let mut disks = ['a', 'b', 'c'].map(|letter| Pv::new(letter, &text));
    let at = usize::try_from(disk::PE_START + 40 * EXTENT).unwrap();
    disks[1].areas.push((at, 32 << 10, 512, text));
    let mut bytes = disks.map(|disk| disk.bytes()).concat();
    for label in bytes.chunks_mut(usize::try_from(PV_BYTES).unwrap()) {
        let size = disk::PE_START + 40 * EXTENT + (32 << 10);
        label[512 + 64..][..8].copy_from_slice(&size.to_le_bytes());
        disk::seal_label(&mut label[512..1024]);
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        let at = n as u64 % PV_BYTES;
        if (disk::PE_START..disk::PE_START + 40 * EXTENT).contains(&at) {
            *byte = u8::try_from(n / 512 % 251).unwrap();
        }
    }
    bytes
}

/// Makes a change, and checks the states that a crash can leave. The group is then the old or the new one, and the same
/// change completes it.
fn crashes(change: Change<'_>, kept: &[(&str, u64)]) {
    let bytes = three();
    let start = Machine::new(&Arc::new(Memory::new(bytes.clone())));
    let device = Arc::new(Faulty::new(Arc::new(Memory::new(bytes.clone())), []));
    assert!(edit(&device, change).unwrap());
    let end = Machine::new(&device);
    assert!(end.is_complete());
    assert_eq!(end.group.seqno, start.group.seqno + 1);
    let check = |machine: &Machine<Memory>| {
        for (name, len_bytes) in kept {
            let len = usize::try_from(*len_bytes).unwrap();
            assert!(
                machine.open(name)[..len] == start.open(name)[..len],
                "{name}"
            );
        }
    };
    let log = device.log();
    let mut incomplete = 0;
    for state in log.states(1) {
        let left = Arc::new(Memory::new(bytes.clone()));
        state.replay(&*left).unwrap();
        let machine = Machine::new(&left);
        let is_known = machine.group == start.group || machine.group == end.group;
        assert!(is_known, "{state}");
        check(&machine);
        incomplete += usize::from(!machine.is_complete());
        edit(&left, change).unwrap();
        let machine = Machine::new(&left);
        assert_eq!(machine.group, end.group, "{state}");
        assert!(machine.is_complete(), "{state}");
        for (pv, (left, new)) in machine.parts.iter().zip(&end.parts).enumerate() {
            let label = |part: &dyn BlockRead| {
                let mut label = [0; 512];
                part.read_at(512, &mut label).unwrap();
                label
            };
            assert!(label(&**left) == label(&**new), "{state}: label {pv}");
        }
        check(&machine);
        assert!(!edit(&left, change).unwrap());
    }
    assert!(incomplete > 0);
}

fn id(letter: char) -> LvmId {
    LvmId::parse(&disk::id(letter)).unwrap()
}

#[test]
fn growing() {
    let kept = [("root", 6 * EXTENT), ("data", 6 * EXTENT)];
    crashes(
        &|e| e.extend("root", NewSize::Bytes(20 * EXTENT)).map(drop),
        &kept,
    );
    crashes(
        &|e| e.extend("data", NewSize::Bytes(20 * EXTENT)).map(drop),
        &kept,
    );
    let all = |e: &mut GroupEditor| {
        assert!([0, 8 * EXTENT].contains(&e.grow_physical_volume(&id('a'))?));
        assert!([0, 7 * EXTENT].contains(&e.grow_physical_volume(&id('b'))?));
        assert!([0, 8 * EXTENT].contains(&e.grow_physical_volume(&id('c'))?));
        e.extend("data", NewSize::Bytes(40 * EXTENT))?;
        assert_eq!(
            e.extend("root", NewSize::Largest)?,
            (48 + 47 + 48 - 40) * EXTENT
        );
        assert_eq!(e.free_bytes(), 0);
        Ok(())
    };
    crashes(&all, &kept);
}

#[test]
fn shrinking() {
    let kept = [("root", 3 * EXTENT), ("data", 2 * EXTENT)];
    crashes(&|e| e.reduce("root", 3 * EXTENT).map(drop), &kept);
    crashes(&|e| e.reduce("data", EXTENT).map(drop), &kept);
    let both = |e: &mut GroupEditor| {
        e.reduce("data", 2 * EXTENT)?;
        let least = e.least_device_bytes(&id('a'))?;
        assert_eq!(least, disk::PE_START + 11 * EXTENT);
        e.shrink_physical_volume(&id('a'), least + 512)?;
        e.shrink_physical_volume(&id('c'), 2_500_000)?;
        let error = e.shrink_physical_volume(&id('b'), 2 * MIB).unwrap_err();
        assert!(error.reason().contains("metadata area"), "{error}");
        Ok(())
    };
    crashes(&both, &kept);
}

#[test]
fn new_volumes() {
    let new = NewVolume {
        name: "swap".to_owned(),
        id: id('S'),
        size: NewSize::Bytes(50 * EXTENT),
    };
    let add = |e: &mut GroupEditor| match e.add(&new) {
        Err(error) if error.kind() == diskfs_block::ErrorKind::Exists => Ok(()),
        added => added.map(drop),
    };
    crashes(&add, &[("root", 6 * EXTENT), ("data", 6 * EXTENT)]);
}

#[test]
fn many_changes_wrap_around_in_the_areas() {
    let device = Arc::new(Memory::new(three()));
    let before = Machine::new(&device).open("root");
    for size in 7..300_u64 {
        let size = (6 + size % 50) * EXTENT;
        let changed = edit(&device, &|e: &mut GroupEditor| {
            let now = e.group().logical_volume("root").unwrap().size_bytes;
            if now < size {
                e.extend("root", NewSize::Bytes(size)).map(drop)
            } else {
                e.reduce("root", size).map(drop)
            }
        });
        assert!(changed.unwrap());
        let machine = Machine::new(&device);
        assert!(
            machine
                .physical
                .iter()
                .all(|pv| pv.group.as_ref() == Some(&machine.group))
        );
        assert_eq!(machine.open("root").len() as u64, size);
        assert!(machine.open("root").starts_with(&before));
    }
}
