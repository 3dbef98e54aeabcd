//! Messages about ports: `struct virtio_console_control` (virtio 1.3, 5.3.6.2).

use super::NAME;

/// The number of our only port. Guests use port 0 as a terminal.
pub(super) const PORT: u32 = 1;

/// The number of ports in the configuration: all numbers up to [`PORT`].
pub(super) const PORTS: u32 = 2;

const DEVICE_READY: u16 = 0;
const DEVICE_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;
const PORT_NAME: u16 = 7;

/// The length of a message without the name that may follow.
pub(super) const BYTES: usize = 8;

/// A message from the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FromGuest {
    /// The guest's driver works.
    Ready,
    /// The guest has set up the port.
    PortReady,
    /// A program has opened the port.
    Opened,
    /// The program has closed the port.
    Closed,
    /// Any other message; it is ignored.
    Other,
}

impl FromGuest {
    pub(super) fn parse(bytes: [u8; BYTES]) -> Self {
        let [i0, i1, i2, i3, e0, e1, v0, v1] = bytes;
        let port = u32::from_le_bytes([i0, i1, i2, i3]);
        let event = u16::from_le_bytes([e0, e1]);
        let value = u16::from_le_bytes([v0, v1]);
        match (event, port, value) {
            (DEVICE_READY, _, 1) => Self::Ready,
            (PORT_READY, PORT, 1) => Self::PortReady,
            (PORT_OPEN, PORT, 0) => Self::Closed,
            (PORT_OPEN, PORT, _) => Self::Opened,
            _ => Self::Other,
        }
    }
}

/// A message to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToGuest {
    /// The port exists.
    Add,
    /// The name of the port.
    Name,
    /// The host has opened the port.
    Open,
}

impl ToGuest {
    pub(super) fn bytes(self) -> Vec<u8> {
        let (event, value, name) = match self {
            Self::Add => (DEVICE_ADD, 1_u16, ""),
            Self::Name => (PORT_NAME, 1, NAME),
            Self::Open => (PORT_OPEN, 1, ""),
        };
        let mut bytes = PORT.to_le_bytes().to_vec();
        bytes.extend_from_slice(&event.to_le_bytes());
        bytes.extend_from_slice(&value.to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_specified() {
        assert_eq!(ToGuest::Add.bytes(), [1, 0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(ToGuest::Name.bytes(), b"\x01\0\0\0\x07\0\x01\0diskfs.0");
        let opened = FromGuest::parse([1, 0, 0, 0, 6, 0, 1, 0]);
        assert_eq!(opened, FromGuest::Opened);
        let of_another_port = FromGuest::parse([0, 0, 0, 0, 6, 0, 1, 0]);
        assert_eq!(of_another_port, FromGuest::Other);
        let ready = FromGuest::parse([0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0]);
        assert_eq!(ready, FromGuest::Ready);
    }
}
