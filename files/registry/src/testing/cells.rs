//! Writing of keys and values into cells, and of cells into bins.

use super::{HiveBuilder, Leaf, Node};
use crate::base_block::checksum;
use crate::big_data::SEGMENT_BYTES;
use crate::name::hash;
use crate::testing::upper;

const NO_OFFSET: u32 = u32::MAX;

/// A security descriptor: owner `S-1-5-32-544`, group `S-1-5-18`, no access lists.
const DESCRIPTOR: [u8; 48] = [
    1, 0, 0, 0x80, 20, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // the header
    1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0, // the owner
    1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0, // the group
];

/// The hive bins data while it is being written.
pub(super) struct Cells<'a> {
    builder: &'a HiveBuilder,
    bins: Vec<u8>,
    /// The start of the free space in the open bin, and the end of the bin.
    free: usize,
    end: usize,
    security: u32,
    keys: u32,
}

impl<'a> Cells<'a> {
    /// Writes a whole hive.
    pub(super) fn hive(builder: &'a HiveBuilder, root: &Node) -> Vec<u8> {
        let mut cells = Self {
            builder,
            bins: Vec::new(),
            free: 0,
            end: 0,
            security: NO_OFFSET,
            keys: 0,
        };
        cells.security = cells.security();
        let root = cells.key(root, None);
        cells.close_bin();
        let references = cells.security as usize + 4 + 12;
        cells.bins[references..references + 4].copy_from_slice(&cells.keys.to_le_bytes());
        let mut hive = cells.base_block(root);
        hive.extend(cells.bins);
        hive
    }

    fn base_block(&self, root: u32) -> Vec<u8> {
        let mut block = vec![0; 4096];
        let sequence = self.builder.sequence_number;
        block[..4].copy_from_slice(b"regf");
        block[12..20].copy_from_slice(&self.builder.last_written.0.to_le_bytes());
        for (at, number) in [
            (4, sequence),
            (8, sequence),
            (20, 1),
            (24, self.builder.minor_version),
            (32, 1),
            (36, root),
            (40, self.bins.len() as u32),
            (44, 1),
        ] {
            block[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&block);
        block[508..512].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// Adds a cell with these bytes, and returns its offset.
    fn put(&mut self, bytes: &[u8]) -> u32 {
        let size = (bytes.len() + 4).next_multiple_of(8);
        if self.free + size > self.end {
            self.close_bin();
            self.open_bin(size);
        }
        let at = self.free;
        self.bins[at..at + 4].copy_from_slice(&0_u32.wrapping_sub(size as u32).to_le_bytes());
        self.bins[at + 4..at + 4 + bytes.len()].copy_from_slice(bytes);
        self.free += size;
        at as u32
    }

    fn open_bin(&mut self, cell_bytes: usize) {
        let (start, size) = (self.bins.len(), (32 + cell_bytes).next_multiple_of(4096));
        self.bins.resize(start + size, 0);
        self.bins[start..start + 4].copy_from_slice(b"hbin");
        self.bins[start + 4..start + 8].copy_from_slice(&(start as u32).to_le_bytes());
        self.bins[start + 8..start + 12].copy_from_slice(&(size as u32).to_le_bytes());
        if start == 0 {
            self.bins[20..28].copy_from_slice(&self.builder.last_written.0.to_le_bytes());
        }
        (self.free, self.end) = (start + 32, start + size);
    }

    /// Turns the rest of the open bin into a free cell.
    fn close_bin(&mut self) {
        let rest = (self.end - self.free) as u32;
        if rest > 0 {
            self.bins[self.free..self.free + 4].copy_from_slice(&rest.to_le_bytes());
        }
        self.free = self.end;
    }

    fn security(&mut self) -> u32 {
        let mut item = b"sk\0\0".to_vec();
        item.resize(20, 0);
        item[16..20].copy_from_slice(&(DESCRIPTOR.len() as u32).to_le_bytes());
        item.extend(DESCRIPTOR);
        let at = self.put(&item);
        let links = at as usize + 4 + 4;
        self.bins[links..links + 4].copy_from_slice(&at.to_le_bytes());
        self.bins[links + 4..links + 8].copy_from_slice(&at.to_le_bytes());
        at
    }

    /// Writes a key and everything below it.
    fn key(&mut self, node: &Node, parent: Option<u32>) -> u32 {
        let (name, is_compressed) = name(&node.name);
        let mut record = vec![0; 76];
        record.extend(&name);
        let at = self.put(&record);
        self.keys += 1;
        let values = self.values(node);
        let class = node.class.as_ref().map(|class| {
            let units: Vec<u8> = class.encode_utf16().flat_map(u16::to_le_bytes).collect();
            (self.put(&units), units.len())
        });
        let subkeys: Vec<(u32, &str)> = node
            .subkeys
            .values()
            .map(|subkey| (self.key(subkey, Some(at)), &*subkey.name))
            .collect();
        let list = self.subkeys(&subkeys);
        let flags: u16 = u16::from(is_compressed) << 5 | if parent.is_none() { 0xc } else { 0 };
        let record = &mut self.bins[at as usize + 4..];
        record[..2].copy_from_slice(b"nk");
        record[2..4].copy_from_slice(&flags.to_le_bytes());
        record[4..12].copy_from_slice(&self.builder.last_written.0.to_le_bytes());
        for (place, number) in [
            (16, parent.unwrap_or(0)),
            (20, subkeys.len() as u32),
            (28, list),
            (32, NO_OFFSET),
            (36, node.values.len() as u32),
            (40, values),
            (44, self.security),
            (48, class.map_or(NO_OFFSET, |(at, _)| at)),
        ] {
            record[place..place + 4].copy_from_slice(&number.to_le_bytes());
        }
        record[72..74].copy_from_slice(&(name.len() as u16).to_le_bytes());
        let class_len = class.map_or(0, |(_, len)| len as u16);
        record[74..76].copy_from_slice(&class_len.to_le_bytes());
        at
    }

    fn subkeys(&mut self, subkeys: &[(u32, &str)]) -> u32 {
        let chunks = subkeys.chunks(self.builder.leaf_len);
        let leaves: Vec<u32> = chunks.map(|chunk| self.leaf(chunk)).collect();
        match leaves[..] {
            [] => NO_OFFSET,
            [leaf] => leaf,
            _ => {
                let elements = leaves.iter().flat_map(|leaf| leaf.to_le_bytes());
                let elements: Vec<u8> = elements.collect();
                self.list(*b"ri", leaves.len(), &elements)
            }
        }
    }

    fn leaf(&mut self, subkeys: &[(u32, &str)]) -> u32 {
        let (signature, leaf) = match self.builder.leaf {
            Leaf::Index => (*b"li", Leaf::Index),
            Leaf::Fast => (*b"lf", Leaf::Fast),
            Leaf::Hash => (*b"lh", Leaf::Hash),
        };
        let mut elements = Vec::new();
        for (at, name) in subkeys {
            elements.extend(at.to_le_bytes());
            match leaf {
                Leaf::Index => {}
                Leaf::Fast => elements.extend(hint(name)),
                Leaf::Hash => elements.extend(hash(&upper(name)).to_le_bytes()),
            }
        }
        self.list(signature, subkeys.len(), &elements)
    }

    fn list(&mut self, signature: [u8; 2], count: usize, elements: &[u8]) -> u32 {
        let mut list = signature.to_vec();
        list.extend((count as u16).to_le_bytes());
        list.extend(elements);
        self.put(&list)
    }

    fn values(&mut self, node: &Node) -> u32 {
        if node.values.is_empty() {
            return NO_OFFSET;
        }
        let mut offsets = Vec::new();
        for (value_name, data_type, data) in &node.values {
            let (size, place) = self.data(data);
            let (name, is_compressed) = name(value_name);
            let mut record = b"vk".to_vec();
            record.extend((name.len() as u16).to_le_bytes());
            record.extend(size.to_le_bytes());
            record.extend(place);
            record.extend(data_type.0.to_le_bytes());
            record.extend(u16::from(is_compressed).to_le_bytes());
            record.extend([0; 2]);
            record.extend(name);
            offsets.extend(self.put(&record).to_le_bytes());
        }
        self.put(&offsets)
    }

    /// Writes the data of a value. Returns its size, and its offset or the resident data.
    fn data(&mut self, data: &[u8]) -> (u32, [u8; 4]) {
        let len = data.len() as u32;
        if data.len() <= 4 {
            let mut place = [0; 4];
            place[..data.len()].copy_from_slice(data);
            return (len | 1 << 31, place);
        }
        if data.len() <= SEGMENT_BYTES || self.builder.minor_version < 4 {
            return (len, self.put(data).to_le_bytes());
        }
        let segments: Vec<u32> = data
            .chunks(SEGMENT_BYTES)
            .map(|segment| self.put(segment))
            .collect();
        let list: Vec<u8> = segments.iter().flat_map(|at| at.to_le_bytes()).collect();
        let list = self.put(&list);
        let at = self.list(*b"db", segments.len(), &list.to_le_bytes());
        (len, at.to_le_bytes())
    }
}

/// Encodes a name: in Latin-1 if possible (then the flag is true), otherwise in UTF-16.
fn name(text: &str) -> (Vec<u8>, bool) {
    let latin: Option<Vec<u8>> = text
        .chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect();
    match latin {
        Some(latin) => (latin, true),
        None => (
            text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            false,
        ),
    }
}

fn hint(name: &str) -> [u8; 4] {
    let mut hint = [0; 4];
    for (place, unit) in hint.iter_mut().zip(name.encode_utf16()) {
        *place = u8::try_from(unit).unwrap_or(0);
    }
    hint
}
