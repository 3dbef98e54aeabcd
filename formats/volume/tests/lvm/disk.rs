//! Physical volumes that are built byte by byte, for cases that no tool produces.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Memory, Result};
use diskfs_volume::lvm::{
    GroupEditor, LvmId, NewIds, PhysicalVolume, PvEntry, VolumeGroup, volume_groups,
};

/// The extent size of the test groups in bytes.
pub(crate) const EXTENT: u64 = 64 << 10;

/// The offset of the first extent in bytes.
pub(crate) const PE_START: u64 = 1 << 20;

/// Computes LVM's checksum, bit by bit.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xf597_a6cf, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc: u32, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    })
}

/// Returns a UUID of the same letter 32 times.
pub(crate) fn id(letter: char) -> String {
    letter.to_string().repeat(32)
}

/// A physical volume to write.
#[derive(Debug, Clone)]
pub(crate) struct Pv {
    pub(crate) id: String,
    pub(crate) sector: usize,
    /// The metadata areas: start and size, the offset of the text in the area, and the text.
    pub(crate) areas: Vec<(usize, usize, usize, String)>,
    pub(crate) size: usize,
}

impl Pv {
    pub(crate) fn new(letter: char, text: &str) -> Self {
        Self {
            id: id(letter),
            sector: 1,
            areas: vec![(4096, 1 << 19, 512, text.to_owned())],
            size: 4 << 20,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut disk = vec![0; self.size];
        for (start, size, at, text) in &self.areas {
            put_area(&mut disk[*start..], *start, *size, *at, text);
        }
        let label = &mut disk[self.sector * 512..][..512];
        label[..8].copy_from_slice(b"LABELONE");
        label[8..16].copy_from_slice(&(self.sector as u64).to_le_bytes());
        label[20..24].copy_from_slice(&32_u32.to_le_bytes());
        label[24..32].copy_from_slice(b"LVM2 001");
        label[32..64].copy_from_slice(self.id.as_bytes());
        label[64..72].copy_from_slice(&(self.size as u64).to_le_bytes());
        label[72..80].copy_from_slice(&PE_START.to_le_bytes());
        let mut at = 72 + 32;
        for (start, size, ..) in &self.areas {
            label[at..at + 8].copy_from_slice(&(*start as u64).to_le_bytes());
            label[at + 8..at + 16].copy_from_slice(&(*size as u64).to_le_bytes());
            at += 16;
        }
        seal_label(label);
        disk
    }
}

/// Corrects a label's checksum.
pub(crate) fn seal_label(sector: &mut [u8]) {
    let sum = crc(&sector[20..512]);
    sector[16..20].copy_from_slice(&sum.to_le_bytes());
}

/// Corrects the checksum of a metadata area's header.
pub(crate) fn seal_header(header: &mut [u8]) {
    let sum = crc(&header[4..512]);
    header[..4].copy_from_slice(&sum.to_le_bytes());
}

fn put_area(area: &mut [u8], start: usize, size: usize, at: usize, text: &str) {
    let text = [text.as_bytes(), b"\0"].concat();
    for (n, &byte) in text.iter().enumerate() {
        let place = at + n;
        area[if place < size {
            place
        } else {
            place - size + 512
        }] = byte;
    }
    area[4..20].copy_from_slice(b" LVM2 x[5A%r0N*>");
    area[20..24].copy_from_slice(&1_u32.to_le_bytes());
    let numbers = [start, size, at, text.len()];
    for (n, number) in numbers.into_iter().enumerate() {
        area[24 + 8 * n..][..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    area[56..60].copy_from_slice(&crc(&text).to_le_bytes());
    seal_header(area);
}

/// Returns the text of a group `vg` with physical volumes of the UUIDs `a`, `b`, ... of 40 extents
/// each.
pub(crate) fn group_text(seqno: u32, physical: &[char], logical: &str) -> String {
    let physical: Vec<String> = physical
        .iter()
        .enumerate()
        .map(|(n, letter)| {
            format!(
                "pv{n} {{ id = \"{}\" device = \"/dev/sd{letter}\" status = [\"ALLOCATABLE\"] \
                 flags = [] dev_size = 8192 pe_start = 2048 pe_count = 40 }}\n",
                id(*letter)
            )
        })
        .collect();
    let physical = physical.concat();
    format!(
        "contents = \"Text Format Volume Group\"\nversion = 1\nvg {{\nid = \"{}\"\nseqno = {seqno}\n\
         status = [\"RESIZEABLE\", \"READ\", \"WRITE\"]\nextent_size = 128\n\
         physical_volumes {{\n{physical}}}\nlogical_volumes {{\n{logical}}}\n}}\n",
        id('V')
    )
}

/// Returns the text of a logical volume from its segments, each with its extents and the rest of
/// its text.
pub(crate) fn volume_text(name: &str, segments: &[(u64, &str)]) -> String {
    let mut start = 0;
    let mut text = format!(
        "{name} {{ id = \"{}\" status = [\"READ\", \"WRITE\", \"VISIBLE\"] flags = []\n\
         segment_count = {}\n",
        id('L'),
        segments.len()
    );
    for (n, (extents, rest)) in segments.iter().enumerate() {
        let number = n + 1;
        let range = format!("start_extent = {start} extent_count = {extents}");
        text = format!("{text}segment{number} {{ {range} {rest} }}\n");
        start += extents;
    }
    text + "}\n"
}

/// Returns the text of a linear area, for [`volume_text`].
pub(crate) fn linear(pv: &str, extent: u64) -> String {
    format!("type = \"striped\" stripe_count = 1 stripes = [ \"{pv}\", {extent} ]")
}

/// A machine: some devices, and the groups on them.
pub(crate) struct Machine {
    pub(crate) disks: Vec<(PhysicalVolume, Arc<Memory>)>,
    pub(crate) groups: Vec<VolumeGroup>,
}

impl Machine {
    pub(crate) fn new(disks: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let disks: Vec<_> = disks
            .into_iter()
            .filter_map(|bytes| {
                let disk = Arc::new(Memory::new(bytes));
                Some((PhysicalVolume::read(&*disk).unwrap()?, disk))
            })
            .collect();
        let groups = volume_groups(disks.iter().map(|(physical, _)| physical));
        Self { disks, groups }
    }

    fn find(&self, entry: &PvEntry) -> Option<Arc<Memory>> {
        let mut disks = self.disks.iter();
        let found = disks.find(|(physical, _)| physical.id == entry.id);
        found.map(|(_, disk)| Arc::clone(disk))
    }

    /// Gives a group and its physical volumes new UUIDs.
    pub(crate) fn change_ids(&self, group: &VolumeGroup) -> Result<()> {
        let new = |number: usize| LvmId::from_random([u8::try_from(number % 256).unwrap(); 32]);
        let physical = group.physical_volumes.iter().zip(1..);
        let ids = NewIds {
            group: new(0),
            physical: physical.map(|(pv, n)| (pv.id, new(n))).collect(),
        };
        group.change_ids(&ids, &|entry| {
            Ok(self.find(entry).map(|disk| disk as Arc<dyn BlockWrite>))
        })
    }

    /// Changes a group.
    pub(crate) fn edit(
        &self,
        group: &VolumeGroup,
        change: impl FnOnce(&mut GroupEditor) -> Result<()>,
    ) -> Result<bool> {
        let mut editor =
            group.editor(&|entry| Ok(self.find(entry).map(|disk| disk as Arc<dyn BlockRead>)))?;
        change(&mut editor)?;
        editor.write(&|entry| Ok(self.find(entry).map(|disk| disk as Arc<dyn BlockWrite>)))
    }

    /// Opens the logical volume of that name for reading.
    pub(crate) fn open(&self, name: &str) -> Result<impl BlockRead + use<>> {
        let group = &self.groups[0];
        let volume = group.logical_volume(name).expect(name);
        group.open(volume, &|entry| {
            Ok(self.find(entry).map(|disk| disk as Arc<dyn BlockRead>))
        })
    }

    /// Opens the logical volume of that name for writing.
    pub(crate) fn open_writable(&self, name: &str) -> Result<impl BlockWrite + use<>> {
        let group = &self.groups[0];
        let volume = group.logical_volume(name).expect(name);
        group.open_writable(volume, &|entry| {
            Ok(self.find(entry).map(|disk| disk as Arc<dyn BlockWrite>))
        })
    }
}

/// Returns all bytes of a device.
pub(crate) fn contents(device: &dyn BlockRead) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}
