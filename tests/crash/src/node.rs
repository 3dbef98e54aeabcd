//! The externally visible state of a file, with everything that is compared.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use diskfs_vfs::{
    Device, FileExtentKind, FileFlags, FileType, FsRead, InodeNumber, Metadata, Result, Timestamp,
};

/// The unit in which contents are stored.
pub const PAGE_BYTES: u64 = 4096;
const PAGE_LEN: usize = 4096;

type Page = Arc<[u8]>;

/// The contents of a file: the pages that are not all zeroes, and the size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The size in bytes.
    pub size_bytes: u64,
    pages: BTreeMap<u64, Page>,
}

/// The part of a file that depends on its type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Body {
    Directory(BTreeMap<Arc<[u8]>, InodeNumber>),
    Regular(Contents),
    Symlink(Vec<u8>),
    Special(Option<Device>),
}

/// The state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of diskfs_vfs::Metadata")]
pub struct Node {
    pub inode: InodeNumber,
    pub file_type: FileType,
    pub permissions: u16,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub flags: FileFlags,
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
    pub created: Option<Timestamp>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub body: Body,
}

/// A reader of nodes. It shares the names of directories between all nodes.
#[derive(Debug, Default)]
pub struct Reader {
    names: HashSet<Arc<[u8]>>,
}

impl Reader {
    /// Reads everything about one file. Pages that are the same as in `before` are shared.
    ///
    /// # Errors
    /// The errors of the filesystem.
    pub fn read(
        &mut self,
        fs: &dyn FsRead,
        inode: InodeNumber,
        before: Option<&Node>,
    ) -> Result<Node> {
        let metadata = fs.metadata(inode)?;
        let body = match metadata.file_type {
            FileType::Directory => Body::Directory(self.entries(fs, inode)?),
            FileType::Regular => {
                let before = before.and_then(|node| node.contents());
                Body::Regular(Contents::read(fs, inode, metadata.size_bytes, before)?)
            }
            FileType::Symlink => Body::Symlink(fs.read_link(inode)?),
            _ => Body::Special(metadata.device),
        };
        let mut xattrs = BTreeMap::new();
        for name in fs.list_xattrs(inode)? {
            let value = fs.xattr(inode, &name)?.unwrap_or_default();
            xattrs.insert(name, value);
        }
        Ok(Node::new(&metadata, xattrs, body))
    }

    fn entries(
        &mut self,
        fs: &dyn FsRead,
        dir: InodeNumber,
    ) -> Result<BTreeMap<Arc<[u8]>, InodeNumber>> {
        let mut entries = BTreeMap::new();
        for entry in fs.read_dir(dir, 0)? {
            let entry = entry?;
            if entry.name != b"." && entry.name != b".." {
                entries.insert(self.intern(&entry.name), entry.inode);
            }
        }
        Ok(entries)
    }

    fn intern(&mut self, name: &[u8]) -> Arc<[u8]> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<[u8]> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

impl Node {
    fn new(metadata: &Metadata, xattrs: BTreeMap<Vec<u8>, Vec<u8>>, body: Body) -> Self {
        Self {
            inode: metadata.inode,
            file_type: metadata.file_type,
            permissions: metadata.permissions,
            links: metadata.links,
            uid: metadata.uid,
            gid: metadata.gid,
            flags: metadata.flags,
            accessed: metadata.accessed,
            modified: metadata.modified,
            changed: metadata.changed,
            created: metadata.created,
            xattrs,
            body,
        }
    }

    /// Returns the contents of a regular file.
    pub const fn contents(&self) -> Option<&Contents> {
        match &self.body {
            Body::Regular(contents) => Some(contents),
            _ => None,
        }
    }

    /// Returns the names in a directory.
    pub const fn entries(&self) -> Option<&BTreeMap<Arc<[u8]>, InodeNumber>> {
        match &self.body {
            Body::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the differences from `other`, field by field, with the expected and the found value.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut difference = |what: &str, expected: String, found: String| {
            if expected != found {
                lines.push(format!("{what} expected {expected}, found {found}"));
            }
        };
        macro_rules! fields {
            ($($field:ident)*) => {
                $(difference(stringify!($field), format!("{:?}", self.$field), format!("{:?}", other.$field));)*
            };
        }
        fields!(file_type permissions links uid gid flags accessed modified changed created);
        let names = self.xattrs.keys().chain(other.xattrs.keys());
        for name in names {
            let value = |node: &Self| node.xattrs.get(name).map(|v| v.escape_ascii().to_string());
            let name = name.escape_ascii().to_string();
            difference(
                &name,
                format!("{:?}", value(self)),
                format!("{:?}", value(other)),
            );
        }
        lines.extend(self.body.differences(&other.body));
        lines.dedup();
        lines
    }
}

impl Body {
    fn differences(&self, other: &Self) -> Vec<String> {
        match (self, other) {
            (Self::Directory(a), Self::Directory(b)) => {
                let missing = a.iter().filter(|(name, inode)| b.get(*name) != Some(inode));
                let extra = b.iter().filter(|(name, inode)| a.get(*name) != Some(inode));
                let difference = |what: &'static str| {
                    move |(name, inode): (&Arc<[u8]>, &InodeNumber)| {
                        format!("{what} {} (inode {inode})", name.escape_ascii())
                    }
                };
                missing
                    .map(difference("expected the name"))
                    .chain(extra.map(difference("found the name")))
                    .collect()
            }
            (Self::Regular(a), Self::Regular(b)) => a.differences(b),
            (a, b) if a == b => Vec::new(),
            (a, b) => vec![format!("expected {a:?}, found {b:?}")],
        }
    }
}

impl Contents {
    fn read(
        fs: &dyn FsRead,
        inode: InodeNumber,
        size_bytes: u64,
        before: Option<&Self>,
    ) -> Result<Self> {
        let mut pages = BTreeMap::new();
        let mut next = 0;
        for extent in fs.extents_of(inode, 0)? {
            let extent = extent?;
            if extent.kind == FileExtentKind::Hole {
                continue;
            }
            let first = (extent.offset / PAGE_BYTES).max(next);
            next = (extent.offset + extent.len_bytes).div_ceil(PAGE_BYTES);
            for number in first..next {
                if let Some(page) = read_page(fs, inode, number, before)? {
                    pages.insert(number, page);
                }
            }
        }
        Ok(Self { size_bytes, pages })
    }

    /// Returns a page, which ends at the end of the file at the latest.
    pub fn page(&self, number: u64) -> Option<&[u8]> {
        self.pages.get(&number).map(|page| &**page)
    }

    /// Returns the numbers of the pages that are not all zeroes.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.pages.keys().copied()
    }

    /// Returns a byte; zero after the end.
    pub fn byte(&self, offset: u64) -> u8 {
        let at = usize::try_from(offset % PAGE_BYTES).unwrap_or(0);
        let page = self.page(offset / PAGE_BYTES);
        page.and_then(|page| page.get(at)).copied().unwrap_or(0)
    }

    /// Returns true if the bytes of a range within one page are the same in both.
    pub fn is_same_in(&self, other: &Self, bytes: &Range<u64>) -> bool {
        let number = bytes.start / PAGE_BYTES;
        if self.page(number) == other.page(number) {
            return true;
        }
        bytes.clone().all(|at| self.byte(at) == other.byte(at))
    }

    fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.size_bytes != other.size_bytes {
            lines.push(format!(
                "size expected {}, found {}",
                self.size_bytes, other.size_bytes
            ));
        }
        let mut numbers: Vec<_> = self.numbers().chain(other.numbers()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let (a, b) = (self.page(number), other.page(number));
            if a != b {
                let origin = |page: Option<&[u8]>| crate::pattern::origin(page.unwrap_or(&[]));
                lines.push(format!(
                    "page {number} expected {}, found {}",
                    origin(a),
                    origin(b)
                ));
            }
            if lines.len() > 8 {
                break;
            }
        }
        lines
    }
}

/// Reads a page; `None` if it is all zeroes.
fn read_page(
    fs: &dyn FsRead,
    inode: InodeNumber,
    number: u64,
    before: Option<&Contents>,
) -> Result<Option<Page>> {
    let mut buf = [0; PAGE_LEN];
    let len = fs.read_at(inode, number * PAGE_BYTES, &mut buf)?;
    let found = &buf[..len];
    if found.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let known = before.and_then(|contents| contents.pages.get(&number));
    Ok(Some(match known {
        Some(page) if **page == *found => Arc::clone(page),
        _ => found.into(),
    }))
}
