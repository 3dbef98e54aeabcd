//! A guest for tests: its memory, and the driver's side of its rings, which says what it likes.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "serves tests alone, which fail by a panic"
)]

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::ring::Addresses;
use super::rings::{Rings, Waiting};

/// The flag of a descriptor that is continued by another one.
pub const NEXT: u16 = 1;
/// The flag of a descriptor that the device writes to.
pub const WRITE: u16 = 2;
/// The flag of a descriptor that is a table of descriptors.
pub const INDIRECT: u16 = 4;

/// How many descriptors each ring has.
pub const SIZE: u16 = 256;

/// How much memory the guest has.
pub const MEMORY: u64 = 16 << 20;

/// Where its memory is not taken by rings.
pub const FREE: u64 = 0x10_0000;

/// One descriptor, as it is in the table.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// The address of the memory.
    pub address: u64,
    /// The length of the memory in bytes.
    pub len: u32,
    /// `NEXT`, `WRITE`, `INDIRECT`.
    pub flags: u16,
    /// The index of the next descriptor.
    pub next: u16,
}

/// A piece of memory that a request has.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// Address and length of what the device reads.
    Readable(u64, u32),
    /// Address and length of what the device writes.
    Writable(u64, u32),
}

/// A guest: memory and rings.
#[derive(Debug)]
pub struct Guest {
    /// The memory of the guest.
    pub memory: GuestMemoryMmap,
    /// The rings, as the device has them.
    pub rings: Arc<Rings>,
}

/// Where ring `index` is.
pub fn place(index: u16) -> (u64, u64, u64) {
    let base = u64::from(index) * 0x1_0000;
    (base, base + 0x2000, base + 0x3000)
}

impl Guest {
    /// A guest whose rings run.
    pub fn new(places: &[Waiting]) -> Self {
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

    /// Writes into the memory of the guest.
    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.memory
            .write_slice(bytes, GuestAddress(address))
            .unwrap();
    }

    /// Reads the memory of the guest.
    pub fn get(&self, address: u64, len: usize) -> Vec<u8> {
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
    pub fn describe(&self, table: u64, index: u16, descriptor: Descriptor) {
        let at = table + 16 * u64::from(index);
        self.put(at, &descriptor.address.to_le_bytes());
        self.put(at + 8, &descriptor.len.to_le_bytes());
        self.put(at + 12, &descriptor.flags.to_le_bytes());
        self.put(at + 14, &descriptor.next.to_le_bytes());
    }

    /// Offers the chain that begins with this descriptor.
    pub fn offer(&self, ring: u16, head: u16) {
        let (_, available, _) = place(ring);
        let index = self.number(available + 2);
        self.put(
            available + 4 + 2 * u64::from(index % SIZE),
            &head.to_le_bytes(),
        );
        self.put(available + 2, &index.wrapping_add(1).to_le_bytes());
    }

    /// Describes a request, from descriptor `head` on, and offers it.
    pub fn request(&self, ring: u16, head: u16, parts: &[Part]) {
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
    pub fn given_back(&self, ring: u16) -> Vec<(u32, u32)> {
        let (.., used) = place(ring);
        let word = |at| u32::from_le_bytes(self.get(at, 4).try_into().unwrap());
        let count = u64::from(self.number(used + 2));
        (0..count)
            .map(|index| used + 4 + 8 * (index % u64::from(SIZE)))
            .map(|at| (word(at), word(at + 4)))
            .collect()
    }

    /// The front end has gone.
    pub fn leave(&self) {
        self.rings.end();
    }
}
