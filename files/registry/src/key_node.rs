//! Key nodes. Specification, "Key node".

use diskfs_block::Result;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Filetime;
use crate::bins::{Bins, Cell, corrupt};
use crate::name::Name;

const FIXED_BYTES: usize = 76;

/// The maximum length of a name: 255 UTF-16 units (Microsoft, "Registry element size limits").
const MAX_NAME_BYTES: usize = 510;

/// The flag of a name in Latin-1, `KEY_COMP_NAME`.
const HAS_COMPRESSED_NAME: u16 = 0x20;

/// The flag of a key that has a handle in place of the number of values, `KEY_PREDEF_HANDLE`.
const IS_PREDEFINED_HANDLE: u16 = 0x40;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    signature: [u8; 2],
    flags: U16,
    last_written_timestamp: U64,
    access_bits: U32,
    parent: U32,
    number_of_subkeys: U32,
    number_of_volatile_subkeys: U32,
    subkeys_list_offset: U32,
    volatile_subkeys_list_offset: U32,
    number_of_key_values: U32,
    key_values_list_offset: U32,
    key_security_offset: U32,
    class_name_offset: U32,
    largest_subkey_name_length: U32,
    largest_subkey_class_name_length: U32,
    largest_value_name_length: U32,
    largest_value_data_size: U32,
    work_var: U32,
    key_name_length: U16,
    class_name_length: U16,
}

const _: () = assert!(size_of::<Raw>() == FIXED_BYTES);

/// A parsed key node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyNode {
    pub(crate) last_written: Filetime,
    pub(crate) parent: u32,
    pub(crate) number_of_subkeys: u32,
    pub(crate) subkeys_list_offset: u32,
    pub(crate) number_of_key_values: u32,
    pub(crate) key_values_list_offset: u32,
    pub(crate) key_security_offset: u32,
    pub(crate) class_name_offset: u32,
    pub(crate) class_name_length: u16,
    pub(crate) name: Name,
}

impl KeyNode {
    /// Reads the key node at `offset`.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub(crate) fn read(bins: &Bins, offset: u32) -> Result<Self> {
        let (cell, record) = bins.record::<FIXED_BYTES>(offset, *b"nk")?;
        let raw: Raw = zerocopy::transmute!(record);
        let flags = raw.flags.get();
        let has_values = flags & IS_PREDEFINED_HANDLE == 0;
        Ok(Self {
            last_written: Filetime(raw.last_written_timestamp.get()),
            parent: raw.parent.get(),
            number_of_subkeys: raw.number_of_subkeys.get(),
            subkeys_list_offset: raw.subkeys_list_offset.get(),
            number_of_key_values: if has_values {
                raw.number_of_key_values.get()
            } else {
                0
            },
            key_values_list_offset: raw.key_values_list_offset.get(),
            key_security_offset: raw.key_security_offset.get(),
            class_name_offset: raw.class_name_offset.get(),
            class_name_length: raw.class_name_length.get(),
            name: name(bins, cell, &raw)?,
        })
    }
}

fn name(bins: &Bins, cell: Cell, raw: &Raw) -> Result<Name> {
    let len = usize::from(raw.key_name_length.get());
    if len > MAX_NAME_BYTES {
        return Err(corrupt(
            cell.offset,
            "invalid key: its name is longer than 255 characters",
        ));
    }
    let bytes = bins.read(cell, FIXED_BYTES, len)?;
    let is_compressed = raw.flags.get() & HAS_COMPRESSED_NAME != 0;
    Ok(Name::from_bytes(&bytes, is_compressed))
}
