//! The memory that a request consists of: what the guest has written, then room for the answer.

use virtio_queue::DescriptorChain;
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use super::memory::Memory;

/// More parts than any request needs: QEMU's largest ring has as many. A guest's own table
/// (indirect) could have 65,535.
const MOST_PARTS: usize = 1024;

/// A request's memory. Kept by a thread and filled anew for each request, so that none allocates.
#[derive(Debug, Default)]
pub struct Buffers {
    readable: Segments,
    writable: Segments,
}

#[derive(Debug, Default)]
struct Segments {
    parts: Vec<Segment>,
    len_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    address: GuestAddress,
    len_bytes: u32,
}

/// A request's memory is not what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Its descriptors do not come to an end.
    Unending,
    /// A loop, or a guest that tries what we bear.
    TooManyParts,
    /// What is read comes first (virtio 1.3, 2.7.4.2).
    OutOfOrder,
    /// The guest has no such memory, or there is less of it than needed.
    NoMemory,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unending => "a request's descriptors have no end",
            Self::TooManyParts => "a request has too many parts",
            Self::OutOfOrder => "a request has something to read behind what is written",
            Self::NoMemory => "a request points to memory that there is none of",
        })
    }
}

impl Segments {
    fn clear(&mut self) {
        self.parts.clear();
        self.len_bytes = 0;
    }

    fn push(&mut self, address: GuestAddress, len_bytes: u32) {
        self.parts.push(Segment { address, len_bytes });
        self.len_bytes = self.len_bytes.saturating_add(len_bytes.into());
    }
}

impl Buffers {
    /// Takes the memory of a request. After an error, nobody knows where an answer would go.
    pub(super) fn fill(&mut self, chain: DescriptorChain<Memory>) -> Result<(), Malformed> {
        self.readable.clear();
        self.writable.clear();
        let mut has_next = true;
        for descriptor in chain {
            let parts = self
                .readable
                .parts
                .len()
                .saturating_add(self.writable.parts.len());
            if parts >= MOST_PARTS {
                return Err(Malformed::TooManyParts);
            }
            if descriptor.is_write_only() {
                self.writable.push(descriptor.addr(), descriptor.len());
            } else if self.writable.parts.is_empty() {
                self.readable.push(descriptor.addr(), descriptor.len());
            } else {
                return Err(Malformed::OutOfOrder);
            }
            has_next = descriptor.has_next();
        }
        // The iterator ends at whatever it does not like.
        if has_next {
            return Err(Malformed::Unending);
        }
        Ok(())
    }

    /// How many bytes the guest has written.
    pub fn readable_bytes(&self) -> u64 {
        self.readable.len_bytes
    }

    /// How much room there is for the answer.
    pub fn writable_bytes(&self) -> u64 {
        self.writable.len_bytes
    }

    /// What the guest has written, from its beginning.
    pub(super) fn reader<'a>(&'a self, memory: &'a GuestMemoryMmap) -> Cursor<'a> {
        Cursor::new(memory, &self.readable)
    }

    /// The room for the answer, from its beginning.
    pub(super) fn writer<'a>(&'a self, memory: &'a GuestMemoryMmap) -> Cursor<'a> {
        Cursor::new(memory, &self.writable)
    }

    /// Writes the last byte of the room for the answer.
    pub(super) fn write_last(&self, memory: &GuestMemoryMmap, byte: u8) -> Result<(), Malformed> {
        let parts = self.writable.parts.iter().rev();
        let last = parts.into_iter().find(|part| part.len_bytes > 0);
        let last = last.ok_or(Malformed::NoMemory)?;
        let within = u64::from(last.len_bytes.saturating_sub(1));
        let address = last
            .address
            .checked_add(within)
            .ok_or(Malformed::NoMemory)?;
        let written = memory.write_obj(byte, address);
        written.map_err(|_| Malformed::NoMemory)
    }
}

/// A place in a request's memory, which moves on with what is copied.
#[derive(Debug)]
pub struct Cursor<'a> {
    memory: &'a GuestMemoryMmap,
    parts: &'a [Segment],
    /// How much of the first part is done.
    within: u32,
}

impl<'a> Cursor<'a> {
    fn new(memory: &'a GuestMemoryMmap, segments: &'a Segments) -> Self {
        Self {
            memory,
            parts: &segments.parts,
            within: 0,
        }
    }

    /// Fills `buf` with what the guest has written.
    pub fn read(&mut self, mut buf: &mut [u8]) -> Result<(), Malformed> {
        while !buf.is_empty() {
            let (address, len) = self.next(buf.len()).ok_or(Malformed::NoMemory)?;
            let (now, rest) = buf.split_at_mut_checked(len).ok_or(Malformed::NoMemory)?;
            let copied = self.memory.read_slice(now, address);
            copied.map_err(|_| Malformed::NoMemory)?;
            buf = rest;
        }
        Ok(())
    }

    /// Copies `bytes` to the guest.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            let (address, len) = self.next(bytes.len()).ok_or(Malformed::NoMemory)?;
            let (now, rest) = bytes.split_at_checked(len).ok_or(Malformed::NoMemory)?;
            let copied = self.memory.write_slice(now, address);
            copied.map_err(|_| Malformed::NoMemory)?;
            bytes = rest;
        }
        Ok(())
    }

    /// The next run of at most `most` bytes, which is not empty.
    fn next(&mut self, most: usize) -> Option<(GuestAddress, usize)> {
        loop {
            let (part, rest) = self.parts.split_first()?;
            let left = part.len_bytes.saturating_sub(self.within);
            if left == 0 {
                self.parts = rest;
                self.within = 0;
                continue;
            }
            let len = left.min(u32::try_from(most).unwrap_or(u32::MAX));
            let address = part.address.checked_add(self.within.into())?;
            self.within = self.within.saturating_add(len);
            return Some((address, usize::try_from(len).ok()?));
        }
    }
}
