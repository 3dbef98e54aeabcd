//! The list of a key's subkeys: an index leaf, a fast leaf, a hash leaf, or an index root of those.
//! Specification, the sections of these names.

use std::collections::HashSet;

use diskfs_block::bytes::{array, le16, le32};
use diskfs_block::{Error, Result};

use crate::bins::{Bins, corrupt};
use crate::name::Searched;

const HEADER_BYTES: usize = 4;

/// More than any key has: those with the most (`HKEY_CLASSES_ROOT`, the servicing stack's) have some 100,000.
pub(crate) const MAX_SUBKEYS: usize = 1 << 20;

/// What a list has at its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    IndexLeaf,
    FastLeaf,
    HashLeaf,
    IndexRoot,
}

impl Kind {
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

/// A list as it stands in its cell: at most 512 KiB.
struct List {
    kind: Kind,
    elements: Vec<u8>,
}

impl List {
    fn read(bins: &Bins, offset: u32) -> Result<Self> {
        let cell = bins.cell(offset)?;
        let header = bins.read(cell, 0, HEADER_BYTES)?;
        let kind = Kind::of(array(&header, 0));
        let kind = kind.ok_or_else(|| corrupt(offset, "there is no list of subkeys"))?;
        let count = usize::from(le16(&header, 2).unwrap_or(0));
        let len = count.saturating_mul(kind.element_bytes());
        let elements = bins.read(cell, HEADER_BYTES, len)?;
        Ok(Self { kind, elements })
    }

    fn elements(&self) -> impl Iterator<Item = &[u8]> {
        self.elements.chunks_exact(self.kind.element_bytes())
    }

    /// The offsets of those elements that could be of the name.
    fn matching(&self, name: Option<&Searched>) -> impl Iterator<Item = u32> {
        let could_be = move |element: &&[u8]| name.is_none_or(|name| self.could_be(element, name));
        self.elements()
            .filter(could_be)
            .filter_map(|element| le32(element, 0))
    }

    fn could_be(&self, element: &[u8], name: &Searched) -> bool {
        match self.kind {
            Kind::IndexLeaf | Kind::IndexRoot => true,
            Kind::FastLeaf => array(element, 4).is_none_or(|hint| name.may_begin_with(hint)),
            Kind::HashLeaf => name
                .hash()
                .is_none_or(|hash| le32(element, 4) == Some(hash)),
        }
    }
}

/// The offsets of a key's subkeys, or of those that could have a name, each once.
///
/// # Errors
/// `Corrupt`, also for one that is listed twice; `Unsupported` beyond the limit.
pub(crate) fn offsets(bins: &Bins, list: u32, name: Option<&Searched>) -> Result<Vec<u32>> {
    let first = List::read(bins, list)?;
    let mut found = Vec::new();
    if first.kind != Kind::IndexRoot {
        found.extend(first.matching(name));
        return each_once(list, found);
    }
    let leaves: Vec<u32> = first.matching(None).collect();
    for leaf in each_once(list, leaves)? {
        let leaf_list = List::read(bins, leaf)?;
        if leaf_list.kind == Kind::IndexRoot {
            return Err(corrupt(leaf, "an index root is below another"));
        }
        found.extend(leaf_list.matching(name));
        if found.len() > MAX_SUBKEYS {
            let reason = format!("a key of more than {MAX_SUBKEYS} subkeys");
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
    Err(corrupt(list, "a list of subkeys has one of them twice"))
}
