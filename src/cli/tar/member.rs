//! The header of one file in the archive: ustar, preceded by a pax header for data that does not
//! fit into it (POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format").

use std::io::{self, Write};

use diskfs::Node;
use diskfs::vfs::{FileType, Metadata};
use tar::{EntryType, Header};

use super::sparse::Sparse;
use super::writer::Writer;
use crate::cli::show::time;

/// The largest number of seven octal digits; `MAX_SIZE_BYTES` is that of eleven digits.
const MAX_ID: u32 = 0o7_777_777;
const MAX_SIZE_BYTES: u64 = 0o77_777_777_777;

/// The maximum length of `name` and `linkname` in a ustar header.
const NAME_BYTES: usize = 100;

/// A file to pack.
#[derive(Debug)]
pub(super) struct Member {
    /// The name in the archive.
    pub(super) name: Vec<u8>,
    /// The file in the image.
    pub(super) node: Node,
    pub(super) metadata: Metadata,
    /// The target of a symlink.
    pub(super) target: Option<Vec<u8>>,
    /// The name of the same file, if it was already packed under another name.
    pub(super) hard_link: Option<Vec<u8>>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The data ranges of a file with holes.
    pub(super) sparse: Option<Sparse>,
}

/// The `keyword=value` records of a pax header.
#[derive(Debug, Default)]
struct Records(Vec<u8>);

impl Records {
    /// Appends a record, which begins with its own length in decimal digits, including these
    /// digits.
    fn push(&mut self, keyword: &[u8], value: &[u8]) {
        let rest = keyword.len() + value.len() + 3; // a space, `=`, a newline
        let mut len = rest + 1;
        while len != rest + len.to_string().len() {
            len = rest + len.to_string().len();
        }
        self.0.extend_from_slice(len.to_string().as_bytes());
        for part in [b" ", keyword, b"=", value, b"\n"] {
            self.0.extend_from_slice(part);
        }
    }
}

impl Member {
    /// Returns the number of bytes that follow the header.
    pub(super) fn stored_bytes(&self) -> u64 {
        if self.hard_link.is_some() || self.metadata.file_type != FileType::Regular {
            return 0;
        }
        let sparse = self.sparse.as_ref().map(Sparse::stored_bytes);
        sparse.unwrap_or(self.metadata.size_bytes)
    }

    /// Writes the pax header, if it is needed, and the header itself.
    pub(super) fn write_header(&self, out: &mut Writer<impl Write>, stored: u64) -> io::Result<()> {
        let Records(records) = self.records(stored);
        if !records.is_empty() {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::XHeader);
            set_name(&mut header, b"PaxHeaders/", &self.name);
            header.set_mode(0o644);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            header.set_size(records.len() as u64);
            header.set_cksum();
            out.header(&header)?;
            out.write(&records)?;
            out.pad(0)?;
        }
        out.header(&self.header(stored))
    }

    /// Returns the name in the archive: that of a directory ends with a slash.
    fn stored_name(&self) -> Vec<u8> {
        let mut name = self.name.clone();
        if self.metadata.is_dir() && !name.ends_with(b"/") {
            name.push(b'/');
        }
        name
    }

    fn link_name(&self) -> Option<&[u8]> {
        self.hard_link.as_deref().or(self.target.as_deref())
    }

    fn records(&self, stored: u64) -> Records {
        let m = &self.metadata;
        let mut records = Records::default();
        let name = self.stored_name();
        match &self.sparse {
            Some(_) if self.hard_link.is_none() => {
                records.push(b"GNU.sparse.major", b"1");
                records.push(b"GNU.sparse.minor", b"0");
                records.push(b"GNU.sparse.name", &name);
                records.push(b"GNU.sparse.realsize", m.size_bytes.to_string().as_bytes());
            }
            _ if name.len() > NAME_BYTES => records.push(b"path", &name),
            _ => {}
        }
        if let Some(link) = self.link_name().filter(|link| link.len() > NAME_BYTES) {
            records.push(b"linkpath", link);
        }
        if m.uid > MAX_ID {
            records.push(b"uid", m.uid.to_string().as_bytes());
        }
        if m.gid > MAX_ID {
            records.push(b"gid", m.gid.to_string().as_bytes());
        }
        if stored > MAX_SIZE_BYTES {
            records.push(b"size", stored.to_string().as_bytes());
        }
        if m.modified.nanoseconds != 0 || self.header_time().is_none() {
            records.push(b"mtime", time::decimal(m.modified).as_bytes());
        }
        if self.hard_link.is_none() {
            for (name, value) in &self.xattrs {
                records.push(&[b"SCHILY.xattr.", name.as_slice()].concat(), value);
            }
        }
        records
    }

    /// Returns the time, if the header can represent it.
    fn header_time(&self) -> Option<u64> {
        let seconds = u64::try_from(self.metadata.modified.seconds).ok();
        seconds.filter(|seconds| *seconds <= MAX_SIZE_BYTES)
    }

    fn header(&self, stored: u64) -> Header {
        let m = &self.metadata;
        let mut header = Header::new_ustar();
        header.set_entry_type(self.entry_type());
        match &self.sparse {
            // A program that does not support sparse files unpacks this name, so it does not
            // overwrite another file.
            Some(_) if self.hard_link.is_none() => {
                set_name(&mut header, b"GNUSparseFile.0/", &self.name);
            }
            _ => set_name(&mut header, b"", &self.stored_name()),
        }
        if let Some(link) = self.link_name() {
            let field = &mut header.as_old_mut().linkname;
            let len = link.len().min(field.len());
            field[..len].copy_from_slice(&link[..len]);
        }
        header.set_mode(m.permissions.into());
        header.set_uid(if m.uid > MAX_ID { 0 } else { m.uid.into() });
        header.set_gid(if m.gid > MAX_ID { 0 } else { m.gid.into() });
        header.set_mtime(self.header_time().unwrap_or(0));
        header.set_size(if stored > MAX_SIZE_BYTES { 0 } else { stored });
        if let (Some(device), Some(ustar)) = (m.device, header.as_ustar_mut()) {
            // Linux has 12 bits of major and 20 bits of minor numbers, which fit into seven digits.
            ustar.set_device_major(device.major);
            ustar.set_device_minor(device.minor);
        }
        header.set_cksum();
        header
    }

    fn entry_type(&self) -> EntryType {
        match (&self.hard_link, self.metadata.file_type) {
            (Some(_), _) => EntryType::Link,
            (None, FileType::Directory) => EntryType::Directory,
            (None, FileType::Symlink) => EntryType::Symlink,
            (None, FileType::CharacterDevice) => EntryType::Char,
            (None, FileType::BlockDevice) => EntryType::Block,
            (None, FileType::Fifo) => EntryType::Fifo,
            (None, FileType::Regular | FileType::Socket) => EntryType::Regular,
        }
    }
}

/// Writes `prefix` and the beginning of `name` into the header, up to the maximum length. A
/// truncated name is complete in the pax header.
fn set_name(header: &mut Header, prefix: &[u8], name: &[u8]) {
    let field = &mut header.as_old_mut().name;
    let whole = prefix.iter().chain(name);
    field
        .iter_mut()
        .zip(whole)
        .for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_digits() {
        let record = |value: usize| {
            let mut records = Records::default();
            records.push(b"path", &vec![b'x'; value]);
            records.0
        };
        for len in [0, 1, 2, 88, 89, 90, 91, 92, 988, 989, 990, 991, 992, 5000] {
            let record = record(len);
            let digits = record.split(|byte| *byte == b' ').next().unwrap();
            let stated: usize = std::str::from_utf8(digits).unwrap().parse().unwrap();
            assert_eq!(stated, record.len(), "{len}");
        }
    }
}
