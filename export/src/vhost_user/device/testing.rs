//! A simulated guest for tests: its memory, and the driver's side of its rings, which may be
//! malformed.
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
use super::rings::{Rings, WaitPoint};

/// The descriptor flag "continued by `next`".
pub const NEXT: u16 = 1;
/// The descriptor flag "the device writes to this memory".
pub const WRITE: u16 = 2;
/// The descriptor flag "the memory is a table of descriptors".
pub const INDIRECT: u16 = 4;

/// The number of descriptors in each ring.
pub const SIZE: u16 = 256;

/// The size of the guest's memory.
pub const MEMORY: u64 = 16 << 20;

/// The address where the memory that rings don't use begins.
pub const FREE: u64 = 0x10_0000;

/// A descriptor as in the descriptor table.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// The address of the memory.
    pub address: u64,
    /// The length of the memory in bytes.
    pub len: u32,
    /// The flags `NEXT`, `WRITE` and `INDIRECT`.
    pub flags: u16,
    /// The index of the next descriptor.
    pub next: u16,
}

/// A piece of a request's memory.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// The address and length of memory that the device reads.
    Readable(u64, u32),
    /// The address and length of memory that the device writes.
    Writable(u64, u32),
}

/// A simulated guest: memory and rings.
#[derive(Debug)]
pub struct Guest {
    /// The memory of the guest.
    pub memory: GuestMemoryMmap,
    /// The device's view of the rings.
    pub rings: Arc<Rings>,
}

/// Returns the addresses of ring `index`: descriptors, available ring, used ring.
pub fn place(index: u16) -> (u64, u64, u64) {
    let base = u64::from(index) * 0x1_0000;
    (base, base + 0x2000, base + 0x3000)
}

impl Guest {
    /// Creates a guest whose rings run.
    pub fn new(places: &[WaitPoint]) -> Self {
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

    /// Writes into the guest's memory.
    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.memory
            .write_slice(bytes, GuestAddress(address))
            .unwrap();
    }

    /// Reads the guest's memory.
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

    /// Makes the chain that begins with this descriptor available.
    pub fn offer(&self, ring: u16, head: u16) {
        let (_, available, _) = place(ring);
        let index = self.number(available + 2);
        self.put(
            available + 4 + 2 * u64::from(index % SIZE),
            &head.to_le_bytes(),
        );
        self.put(available + 2, &index.wrapping_add(1).to_le_bytes());
    }

    /// Describes a request, from descriptor `head` on, and makes it available.
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

    /// Returns the completed requests: heads, and numbers of bytes written.
    pub fn given_back(&self, ring: u16) -> Vec<(u32, u32)> {
        let (.., used) = place(ring);
        let word = |at| u32::from_le_bytes(self.get(at, 4).try_into().unwrap());
        let count = u64::from(self.number(used + 2));
        (0..count)
            .map(|index| used + 4 + 8 * (index % u64::from(SIZE)))
            .map(|at| (word(at), word(at + 4)))
            .collect()
    }

    /// Simulates the end of the front end.
    pub fn leave(&self) {
        self.rings.end();
    }
}
