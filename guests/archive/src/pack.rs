//! Headers of members that are packed here: ustar, preceded by a pax header for data that does not
//! fit into it.

use diskfs_vfs::{Device, Timestamp};
use tar::{EntryType, Header};

/// The block size, to which everything in an archive is padded.
pub(crate) const BLOCK_BYTES: u64 = 512;

/// The largest number of seven octal digits.
const MAX_ID: u32 = 0o7_777_777;

/// The largest number of eleven octal digits.
const MAX_SIZE_BYTES: u64 = 0o77_777_777_777;

/// The maximum length of `name` and `linkname` in a ustar header.
const NAME_BYTES: usize = 100;

/// A member to pack.
#[derive(Debug, Clone)]
pub(crate) struct NewMember {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryType,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: Timestamp,
    /// The target of a symlink or a hard link.
    pub(crate) link: Vec<u8>,
    pub(crate) device: Option<Device>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The number of bytes that follow the header.
    pub(crate) stored_bytes: u64,
    /// The size of a file with holes, whose map is in front of its data (GNU tar, PAX format 1.0).
    pub(crate) sparse_bytes: Option<u64>,
}

impl NewMember {
    /// Returns a member of an existing type without contents, which belongs to root.
    pub(crate) fn new(name: &[u8], kind: EntryType, permissions: u16) -> Self {
        Self {
            name: name.to_vec(),
            kind,
            permissions,
            uid: 0,
            gid: 0,
            modified: Timestamp::default(),
            link: Vec::new(),
            device: None,
            xattrs: Vec::new(),
            stored_bytes: 0,
            sparse_bytes: None,
        }
    }

    /// Returns the headers of the member.
    pub(crate) fn headers(&self) -> Vec<u8> {
        let records = self.records();
        let mut bytes = Vec::new();
        if !records.is_empty() {
            let size_bytes = u64::try_from(records.len()).unwrap_or(u64::MAX);
            let header = header(EntryType::XHeader, b"pax", size_bytes);
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(&records);
            pad(&mut bytes);
        }
        bytes.extend_from_slice(self.header().as_bytes());
        bytes
    }

    fn header(&self) -> Header {
        let mut header = header(self.kind, &self.name, self.stored_bytes.min(MAX_SIZE_BYTES));
        let field = &mut header.as_old_mut().linkname;
        for (to, from) in field.iter_mut().zip(&self.link) {
            *to = *from;
        }
        header.set_mode(self.permissions.into());
        header.set_uid(self.uid.min(MAX_ID).into());
        header.set_gid(self.gid.min(MAX_ID).into());
        header.set_mtime(self.header_seconds().unwrap_or(0));
        if let (Some(device), Some(ustar)) = (self.device, header.as_ustar_mut()) {
            ustar.set_device_major(device.major);
            ustar.set_device_minor(device.minor);
        }
        header.set_cksum();
        header
    }

    /// Returns the time in seconds, if the header can represent it.
    fn header_seconds(&self) -> Option<u64> {
        let seconds = u64::try_from(self.modified.seconds).ok();
        seconds.filter(|seconds| *seconds <= MAX_SIZE_BYTES)
    }

    fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        let mut push = |keyword: &[u8], value: &[u8]| push_record(&mut records, keyword, value);
        if let Some(size_bytes) = self.sparse_bytes {
            push(b"GNU.sparse.major", b"1");
            push(b"GNU.sparse.minor", b"0");
            push(b"GNU.sparse.name", &self.name);
            push(b"GNU.sparse.realsize", size_bytes.to_string().as_bytes());
        } else if self.name.len() > NAME_BYTES {
            push(b"path", &self.name);
        }
        if self.link.len() > NAME_BYTES {
            push(b"linkpath", &self.link);
        }
        for (keyword, id) in [(b"uid", self.uid), (b"gid", self.gid)] {
            if id > MAX_ID {
                push(keyword, id.to_string().as_bytes());
            }
        }
        if self.stored_bytes > MAX_SIZE_BYTES {
            push(b"size", self.stored_bytes.to_string().as_bytes());
        }
        if self.modified.nanoseconds != 0 || self.header_seconds().is_none() {
            push(
                b"mtime",
                diskfs_disk::time::decimal(self.modified).as_bytes(),
            );
        }
        for (name, value) in &self.xattrs {
            push(&[b"SCHILY.xattr.", name.as_slice()].concat(), value);
        }
        records
    }
}

fn header(kind: EntryType, name: &[u8], size_bytes: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    let field = &mut header.as_old_mut().name;
    for (to, from) in field.iter_mut().zip(name) {
        *to = *from;
    }
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size_bytes);
    header.set_cksum();
    header
}

/// Appends a pax record, which begins with its own length in decimal digits, including these
/// digits.
fn push_record(records: &mut Vec<u8>, keyword: &[u8], value: &[u8]) {
    // A space, `=` and a newline.
    let rest = keyword.len().saturating_add(value.len()).saturating_add(3);
    let mut len = rest.saturating_add(1);
    while len != rest.saturating_add(len.to_string().len()) {
        len = rest.saturating_add(len.to_string().len());
    }
    records.extend_from_slice(len.to_string().as_bytes());
    for part in [b" ", keyword, b"=", value, b"\n"] {
        records.extend_from_slice(part);
    }
}

/// Appends zeroes up to the end of the block.
pub(crate) fn pad(bytes: &mut Vec<u8>) {
    let block = usize::try_from(BLOCK_BYTES).unwrap_or(512);
    bytes.resize(bytes.len().next_multiple_of(block), 0);
}
