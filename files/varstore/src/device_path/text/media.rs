//! Text of media nodes: partitions, files and firmware. UEFI 10.3.5.

use super::{Fields, Number};
use crate::ucs2;

pub(super) fn text(subtype: u8, data: Fields<'_>) -> Option<String> {
    match subtype {
        1 => hard_drive(data),
        2 => Some(format!(
            "CDROM({:#X},{:#X},{:#X})",
            Number(data.u32(0)?),
            Number(data.u64(4)?),
            Number(data.u64(12)?)
        )),
        3 => data.vendor("VenMedia"),
        4 => Some(ucs2::read_to_end(data.from(0)?)),
        5 => Some(format!("Media({:X})", data.guid(0)?)),
        6 => Some(format!("FvFile({:X})", data.guid(0)?)),
        7 => Some(format!("Fv({:X})", data.guid(0)?)),
        8 => Some(format!(
            "Offset({:#X},{:#X})",
            Number(data.u64(4)?),
            Number(data.u64(12)?)
        )),
        _ => None,
    }
}

/// Formats a partition: the type of its table, and its identification.
fn hard_drive(data: Fields<'_>) -> Option<String> {
    let number = data.u32(0)?;
    let (start, size) = (Number(data.u64(4)?), Number(data.u64(12)?));
    let signature = match (data.u8(36)?, data.u8(37)?) {
        (_, 1) => format!("MBR,0x{:08X}", data.u32(20)?),
        (_, 2) => format!("GPT,{:X}", data.guid(20)?),
        (_, other) => format!("{other},0"),
    };
    Some(format!("HD({number},{signature},{start:#X},{size:#X})"))
}
