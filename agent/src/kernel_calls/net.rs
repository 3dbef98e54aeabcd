//! Interfaces and routes: netdevice(7).

use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Any socket of the family takes them.
fn socket() -> io::Result<OwnedFd> {
    // SAFETY: it touches no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: numbers and pointers only, for which zeroes are a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays a NUL.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}

fn call(number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    let socket = socket()?;
    // SAFETY: these requests read and write a `struct ifreq`.
    match unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut *request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An address in the form that the kernel takes it in.
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
    // SAFETY: both are plain bytes, and as many of them.
    unsafe { std::mem::transmute(internet) }
}

/// Gives an interface its address.
pub(crate) fn set_address(interface: &str, own: Ipv4Addr, mask: Ipv4Addr) -> io::Result<()> {
    let mut wanted = request(interface)?;
    wanted.ifr_ifru.ifru_addr = address(own);
    call(libc::SIOCSIFADDR, &mut wanted)?;
    wanted.ifr_ifru.ifru_netmask = address(mask);
    call(libc::SIOCSIFNETMASK, &mut wanted)
}

/// Has an interface used.
pub(crate) fn bring_up(interface: &str) -> io::Result<()> {
    let mut wanted = request(interface)?;
    // IFF_UP and IFF_RUNNING.
    wanted.ifr_ifru.ifru_flags = 0x1 | 0x40;
    call(libc::SIOCSIFFLAGS, &mut wanted)
}

/// A route of IPv4.
#[derive(Debug)]
pub(crate) struct Route {
    destination: Ipv4Addr,
    mask: Ipv4Addr,
    gateway: Ipv4Addr,
}

impl Route {
    /// To everywhere, by this gateway.
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
    // SAFETY: numbers and pointers only, for which zeroes are a value.
    let mut entry: libc::rtentry = unsafe { zeroed() };
    entry.rt_dst = address(route.destination);
    entry.rt_genmask = address(route.mask);
    entry.rt_gateway = address(route.gateway);
    // RTF_UP and RTF_GATEWAY.
    entry.rt_flags = 0x1 | 0x2;
    // SAFETY: this request reads a `struct rtentry`, whose device has no name.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT, &raw const entry) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
