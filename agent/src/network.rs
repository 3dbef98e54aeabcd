//! The optional network of a machine: QEMU's user-mode network.
//!
//! QEMU is the gateway and the name server, and uses sockets of the user who runs it. Its addresses
//! are always the same (QEMU's documentation, "Network emulation", user mode).

use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use diskfs_vfs::{Error, ErrorKind, Result};

use crate::kernel_calls::net::{self, Route};
use crate::waiting::pause;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);

/// The file with the name server for programs.
pub(crate) const RESOLV_CONF: &str = "/run/diskfs-resolv.conf";

/// The timeout for the interface to appear.
const DEADLINE: Duration = Duration::from_secs(2);

/// Sets up the network.
pub(crate) fn connect() -> Result<()> {
    let interface = interface()?;
    let failed = |what: &'static str| {
        move |error| {
            Error::new(ErrorKind::Io, format!("cannot set up the network: {what}"))
                .with_source(error)
        }
    };
    net::bring_up("lo").map_err(failed("the loopback interface"))?;
    net::set_address(&interface, ADDRESS, MASK).map_err(failed("the interface's address"))?;
    net::bring_up(&interface).map_err(failed("the interface"))?;
    net::add_route(&Route::default_over(GATEWAY)).map_err(failed("the default route"))?;
    let contents = format!("nameserver {NAME_SERVER}\n");
    fs::write(RESOLV_CONF, contents).map_err(failed("the name server"))
}

/// Waits for the interface of a physical device, and returns its name.
fn interface() -> Result<String> {
    crate::modules::load_for("network");
    let began = Instant::now();
    loop {
        let all = fs::read_dir("/sys/class/net").into_iter().flatten();
        let mut names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        // An interface of a device has this link.
        let is_device =
            |name: &String| fs::exists(format!("/sys/class/net/{name}/device")).unwrap_or(false);
        if let Some(name) = names.find(is_device) {
            return Ok(name);
        }
        if began.elapsed() > DEADLINE {
            let reason = "no network device that the kernel supports";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        pause(began);
    }
}
