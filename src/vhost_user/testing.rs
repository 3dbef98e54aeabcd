//! A guest for tests: its memory, and the driver's side of its rings, which says what it likes.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::ring::Addresses;
use super::rings::{Rings, Waiting};

// Flags of descriptors.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// How many descriptors each ring has.
pub(crate) const SIZE: u16 = 256;

/// How much memory the guest has.
pub(crate) const MEMORY: u64 = 16 << 20;

/// Where its memory is not taken by rings.
pub(crate) const FREE: u64 = 0x10_0000;

/// One descriptor, as it is in the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

/// A piece of memory that a request has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    Readable(u64, u32),
    Writable(u64, u32),
}

#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) rings: Arc<Rings>,
}

/// Where ring `index` is.
pub(crate) fn place(index: u16) -> (u64, u64, u64) {
    let base = u64::from(index) * 0x1_0000;
    (base, base + 0x2000, base + 0x3000)
}

impl Guest {
    /// A guest whose rings run.
    pub(crate) fn new(places: &[Waiting]) -> Self {
        let size = usize::try_from(MEMORY).unwrap();
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), size)]).unwrap();
        let rings = Arc::new(Rings::new("test", places).unwrap());
        rings.memory.replace(memory.clone());
        for (index, ring) in (0..).zip(rings.iter()) {
            let (descriptors, available, used) = place(index);
            ring.set_size(SIZE.into()).unwrap();
            ring.set_addresses(&Addresses {
                descriptors,
                available,
                used,
            })
            .unwrap();
            ring.start().unwrap();
            ring.set_enabled(true);
        }
        Self { memory, rings }
    }

    pub(crate) fn put(&self, address: u64, bytes: &[u8]) {
        self.memory
            .write_slice(bytes, GuestAddress(address))
            .unwrap();
    }

    pub(crate) fn get(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory
            .read_slice(&mut bytes, GuestAddress(address))
            .unwrap();
        bytes
    }

    fn number(&self, address: u64) -> u16 {
        u16::from_le_bytes(self.get(address, 2).try_into().unwrap())
    }

    /// Writes a descriptor into a table.
    pub(crate) fn describe(&self, table: u64, index: u16, descriptor: Descriptor) {
        let at = table + 16 * u64::from(index);
        self.put(at, &descriptor.address.to_le_bytes());
        self.put(at + 8, &descriptor.len.to_le_bytes());
        self.put(at + 12, &descriptor.flags.to_le_bytes());
        self.put(at + 14, &descriptor.next.to_le_bytes());
    }

    /// Offers the chain that begins with this descriptor.
    pub(crate) fn offer(&self, ring: u16, head: u16) {
        let (_, available, _) = place(ring);
        let index = self.number(available + 2);
        self.put(
            available + 4 + 2 * u64::from(index % SIZE),
            &head.to_le_bytes(),
        );
        self.put(available + 2, &index.wrapping_add(1).to_le_bytes());
    }

    /// Describes a request, from descriptor `head` on, and offers it.
    pub(crate) fn request(&self, ring: u16, head: u16, parts: &[Part]) {
        let (table, ..) = place(ring);
        for (index, part) in (head..).zip(parts) {
            let (address, len, write) = match *part {
                Part::Readable(address, len) => (address, len, 0),
                Part::Writable(address, len) => (address, len, WRITE),
            };
            let is_last = usize::from(index - head) + 1 == parts.len();
            let descriptor = Descriptor {
                address,
                len,
                flags: write | if is_last { 0 } else { NEXT },
                next: index + 1,
            };
            self.describe(table, index, descriptor);
        }
        self.offer(ring, head);
    }

    /// What was given back so far: heads, and how many bytes were written.
    pub(crate) fn given_back(&self, ring: u16) -> Vec<(u32, u32)> {
        let (.., used) = place(ring);
        let word = |at| u32::from_le_bytes(self.get(at, 4).try_into().unwrap());
        let count = u64::from(self.number(used + 2));
        (0..count)
            .map(|index| used + 4 + 8 * (index % u64::from(SIZE)))
            .map(|at| (word(at), word(at + 4)))
            .collect()
    }

    /// The front end has gone.
    pub(crate) fn leave(&self) {
        self.rings.end();
    }
}
