//! Attributes in the inode, `struct xfs_attr_sf_hdr` and `xfs_attr_sf_entry`.
//!
//! Source: "XFS Algorithms & Data Structures", section "Short Form Attributes".

use crate::bytes::{array, be16, part};
use crate::error::Result;
use crate::inode::Inode;

use super::Attribute;
use super::leaf::Value;
use super::name::AttributeName;

/// The length of the header: total length, count, padding.
const HEADER_BYTES: usize = 4;
/// The length of an entry before its name.
const ENTRY_BYTES: usize = 3;

/// Returns the attributes in their order; the iterator ends after the first error.
pub(super) fn attributes<'a>(
    inode: &'a Inode,
    bytes: &'a [u8],
) -> Result<impl Iterator<Item = Result<Attribute<'a>>>> {
    let header = be16(bytes, 0).zip(array(bytes, 2));
    let used = header.and_then(|(len, [count])| Some((bytes.get(..len.into())?, count)));
    let (bytes, count): (_, u8) =
        used.ok_or_else(|| inode.corrupt("invalid attributes in an inode: truncated"))?;
    let mut at = Some(HEADER_BYTES);
    Ok((0..count).map_while(move |_| {
        let start = at.take()?;
        let Some((attribute, end)) = attribute(bytes, start) else {
            let error = inode.corrupt("invalid attributes in an inode: invalid entry");
            return Some(Err(error));
        };
        at = Some(end);
        Some(Ok(attribute))
    }))
}

/// Returns the attribute at an offset, and where the next one starts.
fn attribute(bytes: &[u8], start: usize) -> Option<(Attribute<'_>, usize)> {
    let [name_len, value_len, flags] = array(bytes, start)?;
    let name_start = start.checked_add(ENTRY_BYTES)?;
    let name = part(bytes, name_start, name_len.into()).filter(|name| !name.is_empty())?;
    let value_start = name_start.checked_add(name.len())?;
    let value = part(bytes, value_start, value_len.into())?;
    let attribute = Attribute {
        flags,
        name,
        value: Value::Local(value),
    };
    Some((attribute, value_start.checked_add(value.len())?))
}

/// Returns the value of the attribute with a name.
pub(super) fn find(
    inode: &Inode,
    bytes: &[u8],
    wanted: &AttributeName<'_>,
) -> Result<Option<Vec<u8>>> {
    for attribute in attributes(inode, bytes)? {
        let attribute = attribute?;
        if let Value::Local(value) = attribute.value
            && wanted.is(attribute.flags, attribute.name)
        {
            return Ok(Some(value.to_vec()));
        }
    }
    Ok(None)
}
