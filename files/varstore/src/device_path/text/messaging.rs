//! Text of messaging nodes: buses and networks. UEFI 10.3.4.

use std::fmt::Write;
use std::net::Ipv4Addr;

use super::{Fields, Hex, Number};
use crate::Guid;

/// The terminal types of a serial line. UEFI 10.3.4.11; edk2, `Guid/PcAnsi.h`.
const TERMINALS: [(&str, Guid); 4] = [
    (
        "VenPcAnsi()",
        Guid::new(
            0xe0c1_4753,
            0xf9be,
            0x11d2,
            [0x9a, 0x0c, 0x00, 0x90, 0x27, 0x3f, 0xc1, 0x4d],
        ),
    ),
    (
        "VenVt100()",
        Guid::new(
            0xdfa6_6065,
            0xb419,
            0x11d3,
            [0x9a, 0x2d, 0x00, 0x90, 0x27, 0x3f, 0xc1, 0x4d],
        ),
    ),
    (
        "VenVt100Plus()",
        Guid::new(
            0x7bae_c70b,
            0x57e0,
            0x4c76,
            [0x8e, 0x87, 0x2f, 0x9e, 0x28, 0x08, 0x83, 0x43],
        ),
    ),
    (
        "VenUtf8()",
        Guid::new(
            0xad15_a0d6,
            0x8bec,
            0x4acf,
            [0xa0, 0x73, 0xd0, 0x1d, 0xe7, 0x7e, 0x2d, 0x88],
        ),
    ),
];

pub(super) fn text(subtype: u8, data: Fields<'_>) -> Option<String> {
    let numbers = |name: &str, numbers: &[u16]| {
        let numbers: Vec<String> = numbers
            .iter()
            .map(|n| format!("{:#X}", Number(*n)))
            .collect();
        Some(format!("{name}({})", numbers.join(",")))
    };
    match subtype {
        0x01 => atapi(data),
        0x02 => numbers("Scsi", &[data.u16(0)?, data.u16(2)?]),
        0x05 => numbers("USB", &[data.u8(0)?.into(), data.u8(1)?.into()]),
        0x0a => terminal(data).or_else(|| data.vendor("VenMsg")),
        0x0b => mac_address(data),
        0x0c => ipv4(data),
        0x0d => ipv6(data),
        0x0e => uart(data),
        0x11 => numbers("Unit", &[data.u8(0)?.into()]),
        0x12 => numbers("Sata", &[data.u16(0)?, data.u16(2)?, data.u16(4)?]),
        0x17 => nvme(data),
        0x18 => Some(format!("Uri({})", String::from_utf8_lossy(data.from(0)?))),
        _ => None,
    }
}

fn terminal(data: Fields<'_>) -> Option<String> {
    let guid = data.guid(0)?;
    let (name, _) = TERMINALS.iter().find(|(_, terminal)| *terminal == guid)?;
    Some((*name).to_owned())
}

/// Formats an ATAPI node. Each of the two channels of a controller has a master and a slave.
fn atapi(data: Fields<'_>) -> Option<String> {
    let channel = if data.u8(0)? == 1 {
        "Secondary"
    } else {
        "Primary"
    };
    let drive = if data.u8(1)? == 1 { "Slave" } else { "Master" };
    Some(format!(
        "Ata({channel},{drive},{:#X})",
        Number(data.u16(2)?)
    ))
}

/// Formats a MAC address. Ethernet addresses have six bytes; others are printed with all bytes.
fn mac_address(data: Fields<'_>) -> Option<String> {
    let (address, interface) = (data.array::<32>(0)?, data.u8(32)?);
    let len = if matches!(interface, 0 | 1) { 6 } else { 32 };
    let address = Hex(address.get(..len)?);
    Some(format!("MAC({address},{:#X})", Number(interface)))
}

fn protocol(number: u16) -> String {
    match number {
        6 => String::from("TCP"),
        17 => String::from("UDP"),
        other => format!("{:#X}", Number(other)),
    }
}

/// Formats an IPv4 node: the remote address, then the local one. Older firmware omits gateway and
/// mask.
fn ipv4(data: Fields<'_>) -> Option<String> {
    let address = |at| data.array::<4>(at).map(Ipv4Addr::from);
    let (local, remote) = (address(0)?, address(4)?);
    let protocol = protocol(data.u16(12)?);
    let origin = if data.u8(14)? == 0 { "DHCP" } else { "Static" };
    let mut text = format!("IPv4({remote},{protocol},{origin},{local}");
    if let (Some(gateway), Some(mask)) = (address(15), address(19)) {
        let _ = write!(text, ",{gateway},{mask}");
    }
    text.push(')');
    Some(text)
}

/// Formats an IPv6 node as [`ipv4`] does, with the prefix length.
fn ipv6(data: Fields<'_>) -> Option<String> {
    let address = |at| data.array::<16>(at).map(groups);
    let (local, remote) = (address(0)?, address(16)?);
    let protocol = protocol(data.u16(36)?);
    let origin = match data.u8(38)? {
        0 => "Static",
        1 => "StatelessAutoConfigure",
        _ => "StatefulAutoConfigure",
    };
    let mut text = format!("IPv6({remote},{protocol},{origin},{local}");
    if let (Some(prefix), Some(gateway)) = (data.u8(39), address(40)) {
        let _ = write!(text, ",{:#X},{gateway}", Number(prefix));
    }
    text.push(')');
    Some(text)
}

/// Formats an IPv6 address with all eight groups and all their digits.
fn groups(address: [u8; 16]) -> String {
    let (pairs, _) = address.as_chunks::<2>();
    let groups: Vec<String> = pairs.iter().map(|pair| Hex(pair).to_string()).collect();
    groups.join(":")
}

/// Formats a serial line. Settings with a default value are printed as such.
fn uart(data: Fields<'_>) -> Option<String> {
    let (baud, bits) = (data.u64(4)?, data.u8(12)?);
    let baud = Some(baud)
        .filter(|&baud| baud != 0)
        .map_or("DEFAULT".into(), |baud| baud.to_string());
    let bits = Some(bits)
        .filter(|&bits| bits != 0)
        .map_or("DEFAULT".into(), |bits| bits.to_string());
    let parity = match data.u8(13)? {
        0 => "D",
        1 => "N",
        2 => "E",
        3 => "O",
        4 => "M",
        5 => "S",
        _ => "x",
    };
    let stop_bits = match data.u8(14)? {
        0 => "D",
        1 => "1",
        2 => "1.5",
        3 => "2",
        _ => "x",
    };
    Some(format!("Uart({baud},{bits},{parity},{stop_bits})"))
}

/// Formats an `NVMe` namespace with its identifier, whose bytes are in reverse order.
fn nvme(data: Fields<'_>) -> Option<String> {
    let (namespace, identifier) = (data.u32(0)?, data.array::<8>(4)?);
    let identifier = identifier.iter().rev().map(|byte| format!("{byte:02X}"));
    let identifier: Vec<String> = identifier.collect();
    Some(format!(
        "NVMe({:#X},{})",
        Number(namespace),
        identifier.join("-")
    ))
}
