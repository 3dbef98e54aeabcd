//! Variables with their attributes.

use crate::Guid;
use crate::variable_header::Authentication;

/// The attributes of a variable (UEFI 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attributes(pub u32);

impl Attributes {
    /// The variable survives a reset. All variables in a store do.
    pub const NON_VOLATILE: Self = Self(1);
    /// The firmware can access the variable until the system runs.
    pub const BOOTSERVICE_ACCESS: Self = Self(2);
    /// The system can access the variable, too.
    pub const RUNTIME_ACCESS: Self = Self(4);
    /// The attributes of `BootOrder` and similar variables: all of the above.
    pub const DEFAULT: Self = Self(7);

    /// The attributes for authenticated writes: `EFI_VARIABLE_AUTHENTICATED_WRITE_ACCESS`, the one
    /// with a time, and the enhanced one.
    const AUTHENTICATED: u32 = 0x10 | 0x20 | 0x80;

    /// Returns true if changes of the variable must be signed.
    pub fn is_authenticated(self) -> bool {
        self.0 & Self::AUTHENTICATED != 0
    }

    /// Returns true if a variable can be set with these attributes: the firmware stores it and can
    /// access it.
    pub(crate) fn is_settable(self) -> bool {
        matches!(self.0, 3 | 7)
    }
}

/// A variable of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable<'s> {
    /// The name. Invalid Unicode becomes U+FFFD.
    pub name: String,
    /// The vendor, whose namespace the name belongs to.
    pub vendor: Guid,
    /// The attributes of the variable.
    pub attributes: Attributes,
    /// The authentication fields; `None` in stores of old firmware.
    pub authentication: Option<Authentication>,
    /// The value of the variable.
    pub data: &'s [u8],
}
