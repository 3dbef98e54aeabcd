//! Network interfaces and routes: netdevice(7).

use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::ioctl;

/// The requests to a socket (`include/uapi/linux/sockios.h`).
const SIOCADDRT: u32 = 0x890b;
const SIOCSIFFLAGS: u32 = 0x8914;
const SIOCSIFADDR: u32 = 0x8916;
const SIOCSIFNETMASK: u32 = 0x891c;

/// Opens a socket for the requests: any socket of the family will do.
fn socket() -> io::Result<OwnedFd> {
    // SAFETY: the call accesses no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: the struct has only numbers and pointers, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays NUL.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(request)
}

fn call(number: u32, request: &mut libc::ifreq) -> io::Result<()> {
    let socket = socket()?;
    // SAFETY: these requests read and write a `struct ifreq`.
    match unsafe { libc::ioctl(socket.as_raw_fd(), ioctl(number), &raw mut *request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Converts an address to the kernel's format.
fn address(address: Ipv4Addr) -> libc::sockaddr {
    const { assert!(size_of::<libc::sockaddr>() == size_of::<libc::sockaddr_in>()) };
    let internet = libc::sockaddr_in {
        sin_family: 2, // AF_INET
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.octets()),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: both are plain bytes of the same size.
    unsafe { std::mem::transmute(internet) }
}

/// Sets the address of an interface.
pub(crate) fn set_address(interface: &str, own: Ipv4Addr, mask: Ipv4Addr) -> io::Result<()> {
    let mut wanted = request(interface)?;
    wanted.ifr_ifru.ifru_addr = address(own);
    call(SIOCSIFADDR, &mut wanted)?;
    wanted.ifr_ifru.ifru_netmask = address(mask);
    call(SIOCSIFNETMASK, &mut wanted)
}

/// Brings an interface up.
pub(crate) fn bring_up(interface: &str) -> io::Result<()> {
    let mut wanted = request(interface)?;
    // The flags IFF_UP and IFF_RUNNING.
    wanted.ifr_ifru.ifru_flags = 0x1 | 0x40;
    call(SIOCSIFFLAGS, &mut wanted)
}

/// An IPv4 route.
#[derive(Debug)]
pub(crate) struct Route {
    destination: Ipv4Addr,
    mask: Ipv4Addr,
    gateway: Ipv4Addr,
}

impl Route {
    /// Returns the default route through this gateway.
    pub(crate) const fn default_over(gateway: Ipv4Addr) -> Self {
        Self {
            destination: Ipv4Addr::UNSPECIFIED,
            mask: Ipv4Addr::UNSPECIFIED,
            gateway,
        }
    }
}

/// Adds a route.
pub(crate) fn add_route(route: &Route) -> io::Result<()> {
    let socket = socket()?;
    // SAFETY: the struct has only numbers and pointers, for which zeroes are valid.
    let mut entry: libc::rtentry = unsafe { zeroed() };
    entry.rt_dst = address(route.destination);
    entry.rt_genmask = address(route.mask);
    entry.rt_gateway = address(route.gateway);
    // The flags RTF_UP and RTF_GATEWAY.
    entry.rt_flags = 0x1 | 0x2;
    // SAFETY: the request reads a `struct rtentry`; its pointer to a device name is null.
    match unsafe { libc::ioctl(socket.as_raw_fd(), ioctl(SIOCADDRT), &raw const entry) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
