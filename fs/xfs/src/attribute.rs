//! Extended attributes: in the inode, or in blocks of the attribute fork.
//!
//! Source: "XFS Algorithms & Data Structures", section "Extended Attributes".

mod acl;
mod block;
mod leaf;
mod name;
mod remote;
mod short_form;

use crate::bytes::len_u64;
use crate::error::Result;
use crate::inode::{Fork, Inode};
use crate::volume::Volume;

use self::leaf::Value;
use self::name::{AttributeName, full_names};

/// The maximum length of a value, `XATTR_SIZE_MAX`.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The maximum total length of the names of a file that Linux lists, `XATTR_LIST_MAX`. A longer
/// list would only help an image to use memory.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// A stored attribute.
#[derive(Debug)]
struct Attribute<'a> {
    flags: u8,
    name: &'a [u8],
    value: Value<'a>,
}

/// Returns the value of an attribute by its full name.
///
/// # Errors
/// `Corrupt`; `Io`.
pub(crate) fn get(volume: &Volume, inode: &Inode, full_name: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(wanted) = AttributeName::parse(full_name) else {
        return Ok(None);
    };
    let value = match &inode.attributes {
        Some(Fork::Local(bytes)) => short_form::find(inode, bytes, &wanted)?,
        Some(Fork::Extents(_) | Fork::Tree { .. }) => block::find(volume, inode, &wanted)?,
        _ => None,
    };
    match value {
        Some(value) if wanted.is_acl => acl::to_linux(inode, &value),
        value => Ok(value),
    }
}

/// Returns the full names of all attributes.
///
/// # Errors
/// `Corrupt`; `Io`.
pub(crate) fn list(volume: &Volume, inode: &Inode) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut total = 0_u64;
    let mut push = |flags: u8, name: &[u8]| {
        for full_name in full_names(flags, name) {
            total = total.saturating_add(len_u64(full_name.len()));
            if total > LIST_BYTES_MAX {
                return Err(inode.corrupt("the names of its attributes have more than 1 MiB"));
            }
            names.push(full_name);
        }
        Ok(())
    };
    match &inode.attributes {
        Some(Fork::Local(bytes)) => {
            for attribute in short_form::attributes(inode, bytes)? {
                let attribute = attribute?;
                push(attribute.flags, attribute.name)?;
            }
        }
        Some(Fork::Extents(list)) if list.is_empty() => {}
        Some(Fork::Extents(_) | Fork::Tree { .. }) => block::list(volume, inode, &mut push)?,
        _ => {}
    }
    Ok(names)
}
