//! Prepares a guest for its first boot, and lists its packages: `cargo run --example deploy --
//! disk.qcow2 HASH`.
//!
//! The example needs the features `deploy` and `inspect`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;

use diskfs::deploy::{Deployment, Plan};
use diskfs::inspect::{Depth, Report};
use diskfs::{Commits, Disk, ErrorKind, RootReserve, WriteOptions, guest};

const PLAN: &str = "
steps:
  - hostname: web1.example.org
  - password: {user: root, hash: HASH}
  - network:
      interfaces:
        - {mac: '52:54:00:12:34:56', name: eth0, dhcp4: true}
  - write: {path: /etc/motd, text: 'prepared on the host\n'}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = env::args_os().skip(1);
    let image = words.next().ok_or("usage: deploy IMAGE HASH")?;
    let hash = words.next().ok_or("usage: deploy IMAGE HASH")?;
    let hash = hash.to_str().ok_or("the hash is not valid UTF-8")?;
    let plan = Plan::parse(&PLAN.replace("HASH", hash))?;

    let disk = Disk::options().read_only(false).open(image)?;
    let system = match guest::select_system(&disk, None) {
        Ok(Some(system)) => system,
        Ok(None) => return Err(guest::no_system(&disk).into()),
        // `ErrorKind` distinguishes the kinds of errors, and the message of an error says what to
        // do next.
        Err(error) if error.kind() == ErrorKind::Ambiguous => return Err(error.into()),
        Err(error) => return Err(error.into()),
    };
    let tree = system.filesystem()?;
    let report = Report::of(&tree, Depth::Files);
    let distribution = report.release.distribution.as_deref();
    let packages = report
        .packages
        .installed
        .map_or(0, |packages| packages.len());
    println!("{}: {packages} packages", distribution.unwrap_or("unknown"));

    let deployment = Deployment::prepare(tree, &plan)?;
    print!("{}", String::from_utf8_lossy(&deployment.diff()?));
    let options = WriteOptions {
        commits: Commits::AtClose,
        root_reserve: RootReserve::Use,
        ..WriteOptions::default()
    };
    deployment.apply(&system.writable_filesystem(&options)?)?;
    drop(system);
    disk.close()?;
    Ok(())
}
