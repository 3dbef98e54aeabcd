//! The network that a machine has when it is asked for: the one that QEMU gives to a user's machine.
//!
//! QEMU is the gateway and the name server, and speaks for the machine with the sockets of whoever runs it. Its
//! addresses are always the same (QEMU's documentation, "Network emulation", user mode).

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

/// What programs find their name server in.
pub(crate) const RESOLV_CONF: &str = "/run/diskfs-resolv.conf";

/// How long the interface may take to appear.
const DEADLINE: Duration = Duration::from_secs(2);

/// Sets it up.
pub(crate) fn connect() -> Result<()> {
    let interface = interface()?;
    let failed = |what: &'static str| {
        move |error| Error::new(ErrorKind::Io, format!("no network: {what}")).with_source(error)
    };
    net::bring_up("lo").map_err(failed("the loopback interface"))?;
    net::set_address(&interface, ADDRESS, MASK).map_err(failed("its address"))?;
    net::bring_up(&interface).map_err(failed("the interface"))?;
    net::add_route(&Route::default_over(GATEWAY)).map_err(failed("its route"))?;
    let told = format!("nameserver {NAME_SERVER}\n");
    fs::write(RESOLV_CONF, told).map_err(failed("its name server"))
}

/// The only interface that goes anywhere.
fn interface() -> Result<String> {
    crate::modules::load_for("network");
    let began = Instant::now();
    loop {
        let all = fs::read_dir("/sys/class/net").into_iter().flatten();
        let mut names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        // A physical device is below it.
        let is_device =
            |name: &String| fs::exists(format!("/sys/class/net/{name}/device")).unwrap_or(false);
        if let Some(name) = names.find(is_device) {
            return Ok(name);
        }
        if began.elapsed() > DEADLINE {
            let reason = "this machine has no network that its kernel knows";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        pause(began);
    }
}
