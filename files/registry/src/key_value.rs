//! Values of a key. Specification, "Key value".

use diskfs_block::bytes::index;
use diskfs_block::{Error, Result};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::big_data;
use crate::bins::{Bins, Cell, corrupt};
use crate::name::{Name, SearchName};
use crate::value::{DataType, Value};

const FIXED_BYTES: usize = 20;

/// The flag of data that is stored in the field of its offset.
const IS_RESIDENT: u32 = 1 << 31;

/// The flag of a name in Latin-1.
const HAS_COMPRESSED_NAME: u16 = 1;

/// The maximum length of a name: 16,383 UTF-16 units (Microsoft, "Registry element size limits").
const MAX_NAME_BYTES: usize = 32_766;

/// The maximum size of data without an explicit limit ([`NamedValue::bytes_at_most`]). Microsoft
/// recommends at most 2 KiB.
const MAX_DATA_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    signature: [u8; 2],
    name_length: U16,
    data_size: U32,
    data_offset: U32,
    data_type: U32,
    flags: U16,
    spare: U16,
}

const _: () = assert!(size_of::<Raw>() == FIXED_BYTES);

/// A value of a key. Its data is read on demand.
#[derive(Debug, Clone)]
pub struct NamedValue<'h> {
    bins: &'h Bins,
    name: Name,
    data_type: DataType,
    data_size: u32,
    data_offset: u32,
}

impl<'h> NamedValue<'h> {
    /// Reads the value at `offset`.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub(crate) fn read(bins: &'h Bins, offset: u32) -> Result<Self> {
        let (cell, record) = bins.record::<FIXED_BYTES>(offset, *b"vk")?;
        let raw: Raw = zerocopy::transmute!(record);
        let name = name(bins, cell, &raw)?;
        Ok(Self::with_name(bins, &raw, name))
    }

    /// Reads the value at `offset` if it has this name. Names of another length are not read.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub(crate) fn read_named(
        bins: &'h Bins,
        offset: u32,
        searched: &SearchName,
    ) -> Result<Option<Self>> {
        let (cell, record) = bins.record::<FIXED_BYTES>(offset, *b"vk")?;
        let raw: Raw = zerocopy::transmute!(record);
        if searched.len_bytes(is_compressed(&raw)) != usize::from(raw.name_length.get()) {
            return Ok(None);
        }
        let name = name(bins, cell, &raw)?;
        Ok(name.is(searched).then(|| Self::with_name(bins, &raw, name)))
    }

    fn with_name(bins: &'h Bins, raw: &Raw, name: Name) -> Self {
        Self {
            bins,
            name,
            data_type: DataType(raw.data_type.get()),
            data_size: raw.data_size.get(),
            data_offset: raw.data_offset.get(),
        }
    }

    /// Returns the name; empty for the default value of a key. Invalid Unicode becomes U+FFFD.
    pub fn name(&self) -> String {
        self.name.text()
    }

    /// Returns the type of the data.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Returns the length of the data in bytes.
    pub fn len_bytes(&self) -> usize {
        index(self.data_size & !IS_RESIDENT)
    }

    /// Returns the data, decoded according to its type.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid; `Unsupported` for more than 1 MiB of data.
    pub fn value(&self) -> Result<Value> {
        let bytes = self.bytes_at_most(MAX_DATA_BYTES)?;
        Ok(Value::new(self.data_type, bytes))
    }

    /// Returns the data as it is stored.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid; `Unsupported` for more than `limit_bytes` of data.
    pub fn bytes_at_most(&self, limit_bytes: usize) -> Result<Vec<u8>> {
        let len = self.len_bytes();
        if self.data_size & IS_RESIDENT != 0 {
            let bytes = self.data_offset.to_le_bytes();
            let resident = bytes.get(..len).map(<[u8]>::to_vec);
            return resident.ok_or_else(|| {
                Error::corrupt("invalid value: more than 4 bytes of resident data")
            });
        }
        if len > limit_bytes {
            let reason = format!("value is too large: {len} bytes, at most {limit_bytes}");
            return Err(Error::unsupported(reason));
        }
        if len == 0 {
            return Ok(Vec::new());
        }
        big_data::read(self.bins, self.data_offset, len)
    }
}

fn is_compressed(raw: &Raw) -> bool {
    raw.flags.get() & HAS_COMPRESSED_NAME != 0
}

fn name(bins: &Bins, cell: Cell, raw: &Raw) -> Result<Name> {
    let len = usize::from(raw.name_length.get());
    if len > MAX_NAME_BYTES {
        return Err(corrupt(
            cell.offset,
            "invalid value: its name is longer than 16,383 characters",
        ));
    }
    let bytes = bins.read(cell, FIXED_BYTES, len)?;
    Ok(Name::from_bytes(&bytes, is_compressed(raw)))
}
