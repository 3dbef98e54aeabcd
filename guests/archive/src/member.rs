//! A member of an archive: its header, combined with the pax header before it.

use diskfs_vfs::{Device, Timestamp};
use tar::{EntryType, Header};

use crate::damage::wrong;
use crate::pax::Pax;
use diskfs_disk::{Error, ErrorKind, Result};

/// The limit on the runs of a sparse file, the same as that of `diskfs tar`.
const MAX_RUNS: usize = 1 << 20;

/// The type of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    Regular,
    /// A directory member.
    Directory,
    /// A hard link to the member with this name.
    HardLink(Vec<u8>),
    /// A symlink with its target.
    Symlink(Vec<u8>),
    /// A character device.
    CharacterDevice(Device),
    /// A block device.
    BlockDevice(Device),
    /// A FIFO (named pipe).
    Fifo,
}

/// A member of an archive.
#[derive(Debug, Clone)]
pub struct Member {
    /// The name, as it is stored.
    pub name: Vec<u8>,
    /// The type of the member.
    pub kind: MemberKind,
    /// The low 12 bits of the mode.
    pub permissions: u16,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The time of the last modification.
    pub modified: Timestamp,
    /// The time of the last access.
    pub accessed: Option<Timestamp>,
    /// The extended attributes, by their full names.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The size of the file, including holes.
    pub size_bytes: u64,
    /// The size of the stored contents after the header.
    pub stored_bytes: u64,
    /// The runs of data of a sparse file, in order; `None` for a file without holes.
    pub runs: Option<Vec<(u64, u64)>>,
    /// True if the member has an ACL as text that names a user or a group without a number. It is
    /// not in `xattrs`, because only the system that wrote the archive knows the number.
    pub has_named_acl: bool,
    pub(crate) is_old_sparse: bool,
    pub(crate) has_map_in_front: bool,
}

impl Member {
    pub(crate) fn new(
        header: &Header,
        pax: &Pax,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Self> {
        let name = pax
            .text(b"GNU.sparse.name")
            .or_else(|| pax.text(b"path"))
            .or(long_name)
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let link = pax.text(b"linkpath").or(long_link);
        let link = link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
        let kind = kind(header, &name, link.unwrap_or_default())?;
        let stored_bytes = match (&kind, pax.number(b"size")?) {
            // In some archives links have a size, although they have no contents.
            (MemberKind::HardLink(_) | MemberKind::Symlink(_), _) => 0,
            (_, Some(size)) => size,
            (_, None) => header.entry_size()?,
        };
        let real_size = pax.number(b"GNU.sparse.realsize")?;
        let real_size = real_size.or(pax.number(b"GNU.sparse.size")?);
        let id = |keyword: &[u8], number: std::io::Result<u64>| -> Result<u32> {
            let number = pax.number(keyword)?.map_or(number, Ok)?;
            u32::try_from(number).map_err(|_| wrong("owner"))
        };
        let mut member = Self {
            kind,
            permissions: u16::try_from(header.mode()? & 0o7777).unwrap_or(0),
            uid: id(b"uid", header.uid())?,
            gid: id(b"gid", header.gid())?,
            modified: pax
                .time(b"mtime")?
                .map_or_else(|| header_time(header), Ok)?,
            accessed: pax.time(b"atime")?,
            size_bytes: real_size.unwrap_or(stored_bytes),
            stored_bytes,
            runs: None,
            is_old_sparse: header.entry_type().is_gnu_sparse(),
            has_map_in_front: pax.text(b"GNU.sparse.major").as_deref() == Some(b"1"),
            xattrs: Vec::new(),
            has_named_acl: false,
            name,
        };
        if member.is_old_sparse || real_size.is_some() {
            member.runs = Some(Vec::new());
        }
        member.take_map(pax)?;
        (member.xattrs, member.has_named_acl) = pax.xattrs()?;
        Ok(member)
    }

    /// Reads the map of GNU sparse formats 0.0 and 0.1, which is in the pax header.
    fn take_map(&mut self, pax: &Pax) -> Result<()> {
        let number = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok();
            text.and_then(|text| text.parse::<u64>().ok())
                .ok_or_else(|| wrong("map of a sparse file"))
        };
        if let Some(map) = pax.text(b"GNU.sparse.map") {
            let numbers: Vec<u64> = map
                .split(|byte| *byte == b',')
                .map(number)
                .collect::<Result<_>>()?;
            for pair in numbers.chunks(2) {
                let [offset, len] = pair else {
                    return Err(wrong("map of a sparse file"));
                };
                self.push_run(*offset, *len)?;
            }
        }
        let mut offset = None;
        for (keyword, value) in pax.records() {
            match (keyword, offset) {
                (b"GNU.sparse.offset", _) => offset = Some(number(value)?),
                (b"GNU.sparse.numbytes", Some(at)) => self.push_run(at, number(value)?)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a run of a sparse file, after the others.
    pub(crate) fn push_run(&mut self, offset: u64, len_bytes: u64) -> Result<()> {
        let runs = self.runs.get_or_insert_default();
        let end = runs.last().map_or(0, |(offset, len)| offset + len);
        if offset < end || offset.checked_add(len_bytes).is_none() {
            return Err(wrong("map of a sparse file"));
        }
        if runs.len() >= MAX_RUNS {
            let reason = format!("too many runs in a sparse file, at most {MAX_RUNS}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        runs.push((offset, len_bytes));
        Ok(())
    }
}

fn kind(header: &Header, name: &[u8], link: Vec<u8>) -> Result<MemberKind> {
    let device = || -> Result<Device> {
        Ok(Device {
            major: header.device_major()?.unwrap_or(0),
            minor: header.device_minor()?.unwrap_or(0),
        })
    };
    Ok(match header.entry_type() {
        // Before ustar, a trailing slash marked a directory.
        EntryType::Regular if name.ends_with(b"/") => MemberKind::Directory,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => MemberKind::Regular,
        EntryType::Directory => MemberKind::Directory,
        EntryType::Link => MemberKind::HardLink(link),
        EntryType::Symlink => MemberKind::Symlink(link),
        EntryType::Char => MemberKind::CharacterDevice(device()?),
        EntryType::Block => MemberKind::BlockDevice(device()?),
        EntryType::Fifo => MemberKind::Fifo,
        other => {
            let letter = char::from(other.as_byte());
            let reason = format!(
                "members of type `{}` are not supported",
                letter.escape_default()
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
    })
}

fn header_time(header: &Header) -> Result<Timestamp> {
    Ok(Timestamp {
        // Base-256 numbers are signed, but the crate reads them as unsigned.
        seconds: header.mtime()?.cast_signed(),
        nanoseconds: 0,
    })
}
