//! Text representation of device paths. UEFI 10.6; where it leaves a choice, as edk2's
//! `UefiDevicePathLib` does.

mod acpi;
mod media;
mod messaging;

use std::fmt::{self, Display, Formatter};

use diskfs_block::bytes::{array, le16, le32};

use super::{DevicePath, Node, node_type};
use crate::Guid;

impl Display for DevicePath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for node in &self.nodes {
            if node.node_type == node_type::END {
                separator = ",";
                continue;
            }
            write!(f, "{separator}{node}")?;
            separator = "/";
        }
        Ok(())
    }
}

impl Display for Node {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let data = Fields(&self.data);
        let known = match self.node_type {
            node_type::HARDWARE => hardware(self.subtype, data),
            node_type::ACPI => acpi::text(self.subtype, data),
            node_type::MESSAGING => messaging::text(self.subtype, data),
            node_type::MEDIA => media::text(self.subtype, data),
            node_type::BIOS_BOOT => bios_boot(self.subtype, data),
            _ => None,
        };
        match known {
            Some(text) => f.write_str(&text),
            None => unknown(self, f),
        }
    }
}

/// Formats an unknown or truncated node.
fn unknown(node: &Node, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "Path({},{}", node.node_type, node.subtype)?;
    if !node.data.is_empty() {
        write!(f, ",{}", Hex(&node.data))?;
    }
    f.write_str(")")
}

/// Formats a hardware node. UEFI 10.3.2.
fn hardware(subtype: u8, data: Fields<'_>) -> Option<String> {
    match subtype {
        1 => Some(format!(
            "Pci({:#X},{:#X})",
            Number(data.u8(1)?),
            Number(data.u8(0)?)
        )),
        4 => data.vendor("VenHw"),
        5 => Some(format!("Ctrl({:#X})", Number(data.u32(0)?))),
        _ => None,
    }
}

/// Formats a BIOS boot node. UEFI 10.3.6.
fn bios_boot(subtype: u8, data: Fields<'_>) -> Option<String> {
    const DEVICES: [&str; 6] = ["Floppy", "HD", "CDROM", "PCMCIA", "USB", "Network"];
    if subtype != 1 {
        return None;
    }
    let (device, status) = (data.u16(0)?, data.u16(2)?);
    let known = usize::from(device)
        .checked_sub(1)
        .and_then(|at| DEVICES.get(at));
    let device = known.map_or_else(|| format!("{:#X}", Number(device)), ToString::to_string);
    let text = data.0.get(4..)?.split(|&byte| byte == 0).next()?;
    Some(format!(
        "BBS({device},{},{:#X})",
        text.escape_ascii(),
        Number(status)
    ))
}

/// The data of a node, after its header.
#[derive(Clone, Copy)]
struct Fields<'d>(&'d [u8]);

impl<'d> Fields<'d> {
    fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn u16(self, at: usize) -> Option<u16> {
        le16(self.0, at)
    }

    fn u32(self, at: usize) -> Option<u32> {
        le32(self.0, at)
    }

    fn u64(self, at: usize) -> Option<u64> {
        array(self.0, at).map(u64::from_le_bytes)
    }

    fn guid(self, at: usize) -> Option<Guid> {
        array(self.0, at).map(Guid::from_bytes)
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        array(self.0, at)
    }

    fn from(self, at: usize) -> Option<&'d [u8]> {
        self.0.get(at..)
    }

    /// Formats a vendor-defined node: a GUID, then the other data.
    fn vendor(self, name: &str) -> Option<String> {
        let (guid, rest) = (self.guid(0)?, self.from(16)?);
        let comma = if rest.is_empty() { "" } else { "," };
        Some(format!("{name}({guid:X}{comma}{})", Hex(rest)))
    }
}

/// A number that `{:#X}` formats in hexadecimal, like `0x1F`.
struct Number<N>(N);

impl<N: fmt::UpperHex> fmt::UpperHex for Number<N> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:X}", self.0)
    }
}

/// Bytes to be formatted with two hexadecimal digits each.
struct Hex<'d>(&'d [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}
