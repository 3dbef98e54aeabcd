//! The parser of a descriptor's text.

use std::collections::BTreeMap;

use diskfs_block::bytes::len_u64;
use diskfs_block::{Error, Result};

use super::encoding::Encoding;
use super::{Descriptor, DescriptorPlace, ExtentDescriptor, MAX_EXTENTS, Parent};
use crate::create_type::CreateType;

/// The most entries of the disk database that are kept. VMware writes some 15.
const MAX_DATABASE_ENTRIES: usize = 256;

/// The most versions of the descriptor's format that are known: version 3 added the tracking of
/// changed blocks, which a reader ignores.
const MAX_VERSION: u32 = 3;

/// The content identifier that means no parent.
const NO_PARENT: u32 = u32::MAX;

/// The values that the lines so far had.
struct Parser {
    /// The byte of the file at which the text begins.
    start: u64,
    encoding: Encoding,
    version: Option<u32>,
    cid: Option<u32>,
    parent_cid: Option<u32>,
    parent_name: Option<String>,
    create_type: Option<CreateType>,
    extents: Vec<ExtentDescriptor>,
    database: BTreeMap<String, String>,
}

impl Descriptor {
    /// Parses a text that begins at byte `start` of its file. The text ends at the first NUL byte.
    ///
    /// # Errors
    /// `Corrupt` for a text without the mandatory keys or with invalid values; `Unsupported` for
    /// unknown versions, extent types and encodings, and for more than [`MAX_EXTENTS`] extents.
    pub fn parse(text: &[u8], start: u64, place: DescriptorPlace) -> Result<Self> {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut parser = Parser {
            start,
            encoding: Encoding::Unstated,
            version: None,
            cid: None,
            parent_cid: None,
            parent_name: None,
            create_type: None,
            extents: Vec::new(),
            database: BTreeMap::new(),
        };
        let mut at = start;
        for line in text.split(|byte| *byte == b'\n') {
            parser.line(line, at)?;
            at = at.saturating_add(len_u64(line.len())).saturating_add(1);
        }
        parser.finish(place)
    }
}

impl Parser {
    fn line(&mut self, line: &[u8], at: u64) -> Result<()> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let line = self.encoding.decode(line, at)?;
        if let Some(extent) = ExtentDescriptor::parse(&line, at)? {
            return self.add_extent(extent, at);
        }
        // Other lines are ignored, as in QEMU.
        let Some((key, value)) = line.split_once('=') else {
            return Ok(());
        };
        self.key(key.trim(), unquoted(value.trim()), at)
    }

    fn add_extent(&mut self, extent: ExtentDescriptor, at: u64) -> Result<()> {
        if self.extents.len() >= MAX_EXTENTS {
            let reason = format!("unsupported VMDK: more than {MAX_EXTENTS} extents");
            return Err(Error::unsupported(reason).at(at));
        }
        self.extents.push(extent);
        Ok(())
    }

    /// Keeps the value of a key. The first one of several with the same key counts.
    fn key(&mut self, key: &str, value: &str, at: u64) -> Result<()> {
        match key.to_ascii_lowercase().as_str() {
            "version" => keep(&mut self.version, || number(key, value, 10, at)),
            "cid" => keep(&mut self.cid, || number(key, value, 16, at)),
            "parentcid" => keep(&mut self.parent_cid, || number(key, value, 16, at)),
            "parentfilenamehint" => keep(&mut self.parent_name, || Ok(value.to_owned())),
            "createtype" => keep(&mut self.create_type, || Ok(CreateType::parse(value))),
            "encoding" => {
                self.encoding = Encoding::parse(value);
                Ok(())
            }
            _ => {
                self.database_entry(key, value);
                Ok(())
            }
        }
    }

    fn database_entry(&mut self, key: &str, value: &str) {
        if let Some(name) = key.strip_prefix("ddb.")
            && self.database.len() < MAX_DATABASE_ENTRIES
        {
            let entry = self.database.entry(name.to_owned());
            entry.or_insert_with(|| value.to_owned());
        }
    }

    fn finish(self, place: DescriptorPlace) -> Result<Descriptor> {
        let start = self.start;
        let missing = |key: &str| {
            Error::corrupt(format!("invalid VMDK descriptor: missing key `{key}`")).at(start)
        };
        let version = self.version.unwrap_or(1);
        if version > MAX_VERSION {
            let reason = format!("unsupported VMDK descriptor version {version}");
            return Err(Error::unsupported(reason).at(start));
        }
        Ok(Descriptor {
            place,
            version,
            create_type: self.create_type.ok_or_else(|| missing("createType"))?,
            cid: self.cid.ok_or_else(|| missing("CID"))?,
            parent: parent(self.parent_cid, self.parent_name, start)?,
            extents: self.extents,
            database: self.database,
        })
    }
}

/// Returns the parent. A disk with only one of the two keys is refused: it would be read as zeroes
/// where its parent has data.
fn parent(cid: Option<u32>, file_name: Option<String>, start: u64) -> Result<Option<Parent>> {
    let cid = cid.filter(|it| *it != NO_PARENT);
    let invalid = |what: &str| Error::corrupt(format!("invalid VMDK descriptor: {what}")).at(start);
    match (cid, file_name) {
        (None, None) => Ok(None),
        (Some(cid), Some(file_name)) => Ok(Some(Parent { cid, file_name })),
        (Some(_), None) => Err(invalid("`parentCID` without `parentFileNameHint`")),
        (None, Some(_)) => Err(invalid("`parentFileNameHint` without `parentCID`")),
    }
}

fn keep<T>(slot: &mut Option<T>, value: impl FnOnce() -> Result<T>) -> Result<()> {
    if slot.is_none() {
        *slot = Some(value()?);
    }
    Ok(())
}

fn number(key: &str, value: &str, radix: u32, at: u64) -> Result<u32> {
    u32::from_str_radix(value, radix).map_err(|_| {
        Error::corrupt(format!(
            "invalid VMDK descriptor: invalid number in `{key}`"
        ))
        .at(at)
    })
}

/// Returns the text between quotation marks, or the text if there are none.
fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|it| it.split('"').next());
    inner.unwrap_or(value)
}
