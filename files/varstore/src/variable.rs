//! A variable, and what it is known by.

use crate::Guid;
use crate::variable_header::Authentication;

/// Attributes of a variable (UEFI 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attributes(pub u32);

impl Attributes {
    /// It outlasts a reset. All in a store do.
    pub const NON_VOLATILE: Self = Self(1);
    /// The firmware sees it until the system runs.
    pub const BOOTSERVICE_ACCESS: Self = Self(2);
    /// The system sees it, too.
    pub const RUNTIME_ACCESS: Self = Self(4);
    /// What `BootOrder` and the like have: all of the above.
    pub const DEFAULT: Self = Self(7);

    /// `EFI_VARIABLE_AUTHENTICATED_WRITE_ACCESS`, with a time, and the enhanced one.
    const AUTHENTICATED: u32 = 0x10 | 0x20 | 0x80;

    /// Only who signs may change it.
    pub fn is_authenticated(self) -> bool {
        self.0 & Self::AUTHENTICATED != 0
    }

    /// What a variable may be set with: the firmware keeps it, and sees it.
    pub(crate) fn is_settable(self) -> bool {
        matches!(self.0, 3 | 7)
    }
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable<'s> {
    /// The name. What is no Unicode in it is U+FFFD.
    pub name: String,
    /// Who gave it its name.
    pub vendor: Guid,
    /// Who sees it.
    pub attributes: Attributes,
    /// `None` in stores of old firmware.
    pub authentication: Option<Authentication>,
    /// What it says.
    pub data: &'s [u8],
}
