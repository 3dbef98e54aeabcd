//! The list of a key's subkeys: an index leaf, a fast leaf, a hash leaf, or an index root of such
//! leaves. Specification, the sections of these names.

use std::collections::HashSet;

use diskfs_block::bytes::{array, le16, le32};
use diskfs_block::{Error, Result};

use crate::bins::{Bins, corrupt};
use crate::name::SearchName;

const HEADER_BYTES: usize = 4;

/// The maximum number of subkeys of a key. The largest keys (`HKEY_CLASSES_ROOT`, those of the
/// servicing stack) have about 100,000.
pub(crate) const MAX_SUBKEYS: usize = 1 << 20;

/// The type of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListType {
    IndexLeaf,
    FastLeaf,
    HashLeaf,
    IndexRoot,
}

impl ListType {
    fn of(signature: Option<[u8; 2]>) -> Option<Self> {
        match &signature? {
            b"li" => Some(Self::IndexLeaf),
            b"lf" => Some(Self::FastLeaf),
            b"lh" => Some(Self::HashLeaf),
            b"ri" => Some(Self::IndexRoot),
            _ => None,
        }
    }

    fn element_bytes(self) -> usize {
        match self {
            Self::IndexLeaf | Self::IndexRoot => 4,
            Self::FastLeaf | Self::HashLeaf => 8,
        }
    }
}

/// A list of subkeys as it is stored in its cell: at most 512 KiB.
struct List {
    kind: ListType,
    elements: Vec<u8>,
}

impl List {
    fn read(bins: &Bins, offset: u32) -> Result<Self> {
        let cell = bins.cell(offset)?;
        let header = bins.read(cell, 0, HEADER_BYTES)?;
        let kind = ListType::of(array(&header, 0));
        let kind =
            kind.ok_or_else(|| corrupt(offset, "invalid list of subkeys: unknown signature"))?;
        let count = usize::from(le16(&header, 2).unwrap_or(0));
        let len = count.saturating_mul(kind.element_bytes());
        let elements = bins.read(cell, HEADER_BYTES, len)?;
        Ok(Self { kind, elements })
    }

    fn elements(&self) -> impl Iterator<Item = &[u8]> {
        self.elements.chunks_exact(self.kind.element_bytes())
    }

    /// Returns the offsets of those elements that can have the name.
    fn matching(&self, name: Option<&SearchName>) -> impl Iterator<Item = u32> {
        let could_be = move |element: &&[u8]| name.is_none_or(|name| self.could_be(element, name));
        self.elements()
            .filter(could_be)
            .filter_map(|element| le32(element, 0))
    }

    fn could_be(&self, element: &[u8], name: &SearchName) -> bool {
        match self.kind {
            ListType::IndexLeaf | ListType::IndexRoot => true,
            ListType::FastLeaf => array(element, 4).is_none_or(|hint| name.may_begin_with(hint)),
            ListType::HashLeaf => name
                .hash()
                .is_none_or(|hash| le32(element, 4) == Some(hash)),
        }
    }
}

/// Returns the offsets of a key's subkeys, each once. With a name, only those that can have it.
///
/// # Errors
/// `Corrupt`, also if a subkey is listed twice; `Unsupported` beyond the limit.
pub(crate) fn offsets(bins: &Bins, list: u32, name: Option<&SearchName>) -> Result<Vec<u32>> {
    let first = List::read(bins, list)?;
    let mut found = Vec::new();
    if first.kind != ListType::IndexRoot {
        found.extend(first.matching(name));
        return each_once(list, found);
    }
    let leaves: Vec<u32> = first.matching(None).collect();
    for leaf in each_once(list, leaves)? {
        let leaf_list = List::read(bins, leaf)?;
        if leaf_list.kind == ListType::IndexRoot {
            return Err(corrupt(
                leaf,
                "invalid list of subkeys: an index root below another",
            ));
        }
        found.extend(leaf_list.matching(name));
        if found.len() > MAX_SUBKEYS {
            let reason = format!("key is too large: more than {MAX_SUBKEYS} subkeys");
            return Err(Error::unsupported(reason));
        }
    }
    each_once(list, found)
}

fn each_once(list: u32, offsets: Vec<u32>) -> Result<Vec<u32>> {
    let mut seen = HashSet::with_capacity(offsets.len());
    if offsets.iter().all(|offset| seen.insert(*offset)) {
        return Ok(offsets);
    }
    Err(corrupt(
        list,
        "invalid list of subkeys: one is listed twice",
    ))
}
