//! Changes files in an image, as one transaction: `cargo run --example edit -- disk.qcow2`.
//!
//! A crash at any moment leaves all of the changes or none of them.

use std::env;
use std::io::Write;

use diskfs::{Disk, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = env::args_os().nth(1).ok_or("usage: edit IMAGE")?;
    let disk = Disk::options().read_only(false).open(image)?;
    let volume = disk.default_volume()?;
    volume.transaction(&WriteOptions::default(), |fs| {
        fs.write("/etc/motd", "hello from the host\n")?;
        fs.mkdir_all("/srv/app/conf")?;
        fs.symlink("/srv/app/conf", "/etc/app")?;
        fs.set_permissions("/srv/app", 0o750)?;
        fs.chown("/srv/app", Some(1000), Some(1000))?;
        let mut file = fs.create("/srv/app/conf/settings")?;
        for number in 0..3 {
            writeln!(file, "key{number} = value")?;
        }
        fs.rename("/srv/app/conf/settings", "/srv/app/conf/app.conf")
    })?;
    drop(volume);
    disk.close()?;
    Ok(())
}
