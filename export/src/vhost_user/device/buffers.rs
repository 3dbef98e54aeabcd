//! The memory of a request: first the guest's data, then the room for the answer.

use virtio_queue::DescriptorChain;
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use super::memory::Memory;

/// The maximum number of parts: more than any request needs, as QEMU's largest ring has as many. A
/// guest's own table (indirect) could have 65,535.
const MOST_PARTS: usize = 1024;

/// The memory of a request. Each thread keeps one and refills it, so that no request allocates.
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

/// The reason why the memory of a request is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The chain of descriptors does not end.
    Unending,
    /// The chain is a loop, or its length exceeds our limit.
    TooManyParts,
    /// A readable part follows a writable one (virtio 1.3, 2.7.4.2).
    OutOfOrder,
    /// The guest has no such memory, or it is shorter than needed.
    NoMemory,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unending => "invalid request: unterminated descriptor chain",
            Self::TooManyParts => "invalid request: too many parts",
            Self::OutOfOrder => "invalid request: a readable part follows a writable one",
            Self::NoMemory => "invalid request: address outside the guest's memory",
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
    /// Collects the memory of a request. After an error, the place of the answer is unknown.
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
        // The iterator ends silently at an invalid descriptor.
        if has_next {
            return Err(Malformed::Unending);
        }
        Ok(())
    }

    /// Returns the number of bytes that the guest has written.
    pub fn readable_bytes(&self) -> u64 {
        self.readable.len_bytes
    }

    /// Returns the number of bytes for the answer.
    pub fn writable_bytes(&self) -> u64 {
        self.writable.len_bytes
    }

    /// Returns a cursor at the beginning of the guest's data.
    pub(super) fn reader<'a>(&'a self, memory: &'a GuestMemoryMmap) -> Cursor<'a> {
        Cursor::new(memory, &self.readable)
    }

    /// Returns a cursor at the beginning of the room for the answer.
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

/// A position in a request's memory, which advances with each copy.
#[derive(Debug)]
pub struct Cursor<'a> {
    memory: &'a GuestMemoryMmap,
    parts: &'a [Segment],
    /// The number of bytes of the first part that are done.
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

    /// Fills `buf` with the guest's data.
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

    /// Returns the next run of at most `most` bytes; it is not empty.
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
