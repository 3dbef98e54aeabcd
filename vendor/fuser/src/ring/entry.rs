//! The entries of a queue, and the memory that they share with the kernel.

use std::io;
use std::io::IoSlice;

use nix::errno::Errno;

use crate::ll::fuse_abi as abi;

/// `struct fuse_uring_req_header`.
#[repr(C)]
struct Headers {
    /// `struct fuse_in_header`, then `struct fuse_out_header`.
    in_out: [u8; 128],
    /// The fixed part of the request's arguments.
    operation: [u8; 128],
    flags: u64,
    commit_id: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// The memory of an entry.
#[derive(Debug)]
struct Memory {
    headers: *mut Headers,
    payload: *mut [u8],
    segments: *mut [libc::iovec; 2],
}

// SAFETY: The pointers own their memory. It is only accessed with the lock of `RingWorker::state`,
// while the kernel has given the entry to this process.
unsafe impl Send for Memory {}

impl Memory {
    fn new(payload_bytes: usize) -> Self {
        // SAFETY: Zeroes are valid for a structure of numbers.
        let headers: Headers = unsafe { std::mem::zeroed() };
        let headers = Box::into_raw(Box::new(headers));
        let payload = Box::into_raw(vec![0; payload_bytes].into_boxed_slice());
        let segment = |base, len| libc::iovec {
            iov_base: base,
            iov_len: len,
        };
        let segments = Box::into_raw(Box::new([
            segment(headers.cast(), size_of::<Headers>()),
            segment(payload.cast(), payload_bytes),
        ]));
        Self {
            headers,
            payload,
            segments,
        }
    }
}

/// An entry of a queue. It has one request at a time.
#[derive(Debug)]
pub(super) struct Entry {
    memory: Memory,
    pub(super) holder: Holder,
}

/// Who may access the memory of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The kernel, until it has a request.
    Kernel,
    /// This process: there is a request.
    Requested,
    /// This process: a thread has read the request.
    Taken(Request),
    /// This process: the answer is there.
    Answered(Request),
    /// This process, because the session has ended.
    Ended,
}

/// A request that was taken from an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) unique: u64,
    pub(super) commit_id: u64,
    node: u64,
}

impl Entry {
    /// Makes an entry to be given to the kernel.
    pub(super) fn new(payload_bytes: usize) -> Self {
        Self {
            memory: Memory::new(payload_bytes),
            holder: Holder::Kernel,
        }
    }

    /// Returns the two segments of the memory, as the kernel wants them.
    pub(super) fn segments(&self) -> *mut [libc::iovec; 2] {
        self.memory.segments
    }

    /// Returns the node of the request that was taken.
    pub(super) fn node(&self) -> Option<u64> {
        match self.holder {
            Holder::Taken(request) => Some(request.node),
            _ => None,
        }
    }

    /// Copies the request in one piece, as reading `/dev/fuse` returns it, and returns its length.
    /// The entry can be given back while a thread still works on its copy.
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: The kernel has completed the command, so it does not access the memory until the
        // answer is committed.
        let (headers, payload) = unsafe { (&*self.memory.headers, &*self.memory.payload) };
        let len = headers.in_out.first_chunk().copied();
        let len = len.map_or(0, u32::from_ne_bytes) as usize;
        let number = |at: usize| headers.in_out[at..].first_chunk().copied();
        let number = |at: usize| number(at).map_or(0, u64::from_ne_bytes);
        let (header, payload_bytes) = (size_of::<abi::fuse_in_header>(), headers.payload_bytes);
        let copied = payload.get(..payload_bytes as usize).and_then(|payload| {
            let operation = len.checked_sub(header)?.checked_sub(payload.len())?;
            let target = buffer.get_mut(..len)?;
            let (target, rest) = target.split_at_mut(header);
            target.copy_from_slice(&headers.in_out[..header]);
            let (target, rest) = rest.split_at_mut(operation);
            target.copy_from_slice(headers.operation.get(..operation)?);
            rest.copy_from_slice(payload);
            Some(len)
        });
        self.holder = Holder::Taken(Request {
            unique: number(8),
            node: number(16),
            commit_id: headers.commit_id,
        });
        copied.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "Invalid request"))
    }

    /// Writes an answer. Returns false if the entry has no request, or another one.
    pub(super) fn answer(&mut self, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        let (Some((header, parts)), Holder::Taken(request)) = (parts.split_first(), self.holder)
        else {
            return Ok(false);
        };
        if header.get(8..16) != Some(&request.unique.to_ne_bytes()) {
            return Ok(false);
        }
        // SAFETY: There is a request, so the kernel does not access the memory.
        let (headers, payload) = unsafe { (&mut *self.memory.headers, &mut *self.memory.payload) };
        let mut rest = payload;
        let mut payload_bytes = 0;
        for part in parts {
            let target;
            let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "Too much data");
            (target, rest) = rest.split_at_mut_checked(part.len()).ok_or_else(too_long)?;
            target.copy_from_slice(part);
            payload_bytes += part.len();
        }
        headers.in_out[..header.len()].copy_from_slice(header);
        headers.payload_bytes = payload_bytes as u32;
        self.holder = Holder::Answered(request);
        Ok(true)
    }

    /// Notes the result of a command. Returns the error, unless it tells the session's end.
    pub(super) fn complete(&mut self, result: i32) -> io::Result<()> {
        self.holder = match result {
            0.. => Holder::Requested,
            _ => Holder::Ended,
        };
        match Errno::from_raw(-result) {
            _ if result >= 0 => Ok(()),
            Errno::ENOTCONN | Errno::ECONNABORTED | Errno::ENODEV | Errno::ECANCELED => Ok(()),
            error => Err(error.into()),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // What the kernel has, it may write to even after the ring is closed.
        if self.holder != Holder::Kernel {
            // SAFETY: The pointers come from boxes, and nobody else has them.
            unsafe {
                drop(Box::from_raw(self.memory.headers));
                drop(Box::from_raw(self.memory.payload));
                drop(Box::from_raw(self.memory.segments));
            }
        }
    }
}
