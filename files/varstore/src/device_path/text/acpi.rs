//! Text of ACPI nodes. UEFI 10.3.3.

use super::{Fields, Number};

/// The vendor of ACPI's own compressed EISA identifiers: `PNP`.
const PNP: u32 = 0x41d0;

pub(super) fn text(subtype: u8, data: Fields<'_>) -> Option<String> {
    match subtype {
        1 => device(data.u32(0)?, data.u32(4)?),
        3 => displays(data),
        _ => None,
    }
}

/// Formats an `ACPI_HID_DEVICE_PATH`.
fn device(hid: u32, uid: u32) -> Option<String> {
    let uid = Number(uid);
    if hid & 0xffff != PNP {
        return Some(format!("Acpi({:#010X},{uid:#X})", Padded(hid)));
    }
    Some(match hid.checked_shr(16)? {
        0x0a03 => format!("PciRoot({uid:#X})"),
        0x0a08 => format!("PcieRoot({uid:#X})"),
        0x0604 => format!("Floppy({uid:#X})"),
        0x0301 => format!("Keyboard({uid:#X})"),
        0x0501 => format!("Serial({uid:#X})"),
        0x0401 => format!("ParallelPort({uid:#X})"),
        product => format!("Acpi(PNP{product:04X},{uid:#X})"),
    })
}

/// Formats an `ACPI_ADR_DEVICE_PATH`: one or more displays.
fn displays(data: Fields<'_>) -> Option<String> {
    data.u32(0)?;
    let (displays, _) = data.0.as_chunks::<4>();
    let displays = displays.iter().map(|display| u32::from_le_bytes(*display));
    let displays: Vec<String> = displays
        .map(|display| format!("{:#X}", Number(display)))
        .collect();
    Some(format!("AcpiAdr({})", displays.join(",")))
}

/// An identifier of eight hexadecimal digits.
struct Padded(u32);

impl std::fmt::UpperHex for Padded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0x{:08X}", self.0)
    }
}
