//! `VARIABLE_HEADER` and `AUTHENTICATED_VARIABLE_HEADER`. edk2, `Guid/VariableFormat.h`.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Guid, Time};

/// The magic number at the start of each variable.
pub(crate) const VARIABLE_DATA: u16 = 0x55aa;

/// The alignment of records in bytes.
pub(crate) const HEADER_ALIGNMENT: usize = 4;

/// The offset of the state in a record.
pub(crate) const STATE_OFFSET: usize = 2;

/// A field of erased flash.
const ERASED: u32 = u32::MAX;

/// The states of a record. Each change only clears bits, which flash can do without being erased.
pub(crate) mod state {
    /// The header is not complete.
    pub(crate) const ERASED: u8 = 0xff;
    /// `VAR_HEADER_VALID_ONLY`: the data is not complete.
    pub(crate) const HEADER_VALID_ONLY: u8 = 0x7f;
    /// `VAR_ADDED`: the record is valid.
    pub(crate) const ADDED: u8 = 0x3f;
    /// The mask that clears the bit of `VAR_IN_DELETED_TRANSITION`.
    pub(crate) const TO_TRANSITION: u8 = 0xfe;
    /// The record is valid until there is a newer valid one.
    pub(crate) const IN_DELETED_TRANSITION: u8 = ADDED & TO_TRANSITION;
    /// The mask that clears the bit of `VAR_DELETED`.
    pub(crate) const TO_DELETED: u8 = 0xfd;
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct PlainHeader {
    start_id: U16,
    state: u8,
    reserved: u8,
    attributes: U32,
    name_size: U32,
    data_size: U32,
    vendor_guid: Guid,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Authenticated {
    start_id: U16,
    state: u8,
    reserved: u8,
    attributes: U32,
    monotonic_count: U64,
    time_stamp: Time,
    pub_key_index: U32,
    name_size: U32,
    data_size: U32,
    vendor_guid: Guid,
}

const _: () = assert!(size_of::<PlainHeader>() == 32);
const _: () = assert!(size_of::<Authenticated>() == 60);

/// The authentication fields of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Authentication {
    /// The count of changes; no longer used.
    pub monotonic_count: u64,
    /// The time at which the value was signed.
    pub time_stamp: Time,
    /// The index of the key that signed the value; no longer used.
    pub pub_key_index: u32,
}

/// The header format of a store's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Authenticated,
    Plain,
}

/// A header of either format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VariableHeader {
    pub(crate) state: u8,
    pub(crate) attributes: u32,
    /// The authentication fields; `None` in the plain format.
    pub(crate) authentication: Option<Authentication>,
    pub(crate) name_size: u32,
    pub(crate) data_size: u32,
    pub(crate) vendor: Guid,
}

impl Format {
    /// Returns the length of a header in bytes.
    pub(crate) const fn header_bytes(self) -> usize {
        match self {
            Self::Authenticated => size_of::<Authenticated>(),
            Self::Plain => size_of::<PlainHeader>(),
        }
    }

    /// Parses the header at the start of `bytes`; `None` if there is none.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<VariableHeader> {
        let (start_id, header) = match self {
            Self::Authenticated => {
                let (raw, _) = Authenticated::ref_from_prefix(bytes).ok()?;
                (raw.start_id, VariableHeader::of_authenticated(raw))
            }
            Self::Plain => {
                let (raw, _) = PlainHeader::ref_from_prefix(bytes).ok()?;
                (raw.start_id, VariableHeader::of_plain(raw))
            }
        };
        (start_id == VARIABLE_DATA).then_some(header)
    }

    /// Returns the bytes of a header.
    pub(crate) fn to_bytes(self, header: &VariableHeader) -> Vec<u8> {
        match self {
            Self::Authenticated => header.authenticated().as_bytes().to_vec(),
            Self::Plain => header.plain().as_bytes().to_vec(),
        }
    }
}

impl VariableHeader {
    fn of_authenticated(raw: &Authenticated) -> Self {
        Self {
            state: raw.state,
            attributes: raw.attributes.get(),
            authentication: Some(Authentication {
                monotonic_count: raw.monotonic_count.get(),
                time_stamp: raw.time_stamp,
                pub_key_index: raw.pub_key_index.get(),
            }),
            name_size: raw.name_size.get(),
            data_size: raw.data_size.get(),
            vendor: raw.vendor_guid,
        }
    }

    fn of_plain(raw: &PlainHeader) -> Self {
        Self {
            state: raw.state,
            attributes: raw.attributes.get(),
            authentication: None,
            name_size: raw.name_size.get(),
            data_size: raw.data_size.get(),
            vendor: raw.vendor_guid,
        }
    }

    fn authenticated(&self) -> Authenticated {
        let authentication = self.authentication.unwrap_or_default();
        Authenticated {
            start_id: VARIABLE_DATA.into(),
            state: self.state,
            reserved: 0,
            attributes: self.attributes.into(),
            monotonic_count: authentication.monotonic_count.into(),
            time_stamp: authentication.time_stamp,
            pub_key_index: authentication.pub_key_index.into(),
            name_size: self.name_size.into(),
            data_size: self.data_size.into(),
            vendor_guid: self.vendor,
        }
    }

    fn plain(&self) -> PlainHeader {
        PlainHeader {
            start_id: VARIABLE_DATA.into(),
            state: self.state,
            reserved: 0,
            attributes: self.attributes.into(),
            name_size: self.name_size.into(),
            data_size: self.data_size.into(),
            vendor_guid: self.vendor,
        }
    }

    /// Returns the sizes of the name and the data. For an incomplete header both are 0, as in the
    /// firmware.
    pub(crate) fn sizes(&self) -> (u32, u32) {
        let fields = [self.attributes, self.name_size, self.data_size];
        if self.state == state::ERASED || fields.contains(&ERASED) {
            return (0, 0);
        }
        (self.name_size, self.data_size)
    }
}
