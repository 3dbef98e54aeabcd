//! Guests on the disk of an NBD export of ours, which they write to.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diskfs_fixtures::{have, run};

use crate::images::{ROOT_OFFSET_BYTES, images};
use crate::machine::{Machine, Start};
use crate::{DISKFS, Guest};

/// Commands that write, read back what the disk has, delete a part and discard it.
const WRITES: &str = "cp -a /usr/share/doc /var/copy; sync; echo 3 > /proc/sys/vm/drop_caches; \
    diff -r /usr/share/doc /var/copy; rm -r /var/copy/lib*; fstrim -v /; \
    echo \"marker: $(findmnt -n -o SOURCE /)\"";

/// Commands that make one file durable and then don't stop writing.
const WRITES_ON: &str = "echo promised > /var/lib/promised; sync; mount -o remount,sync /; \
    echo \"marker: $((6 * 7))\"; while :; do cp -a /usr/share /var/copy; rm -r /var/copy; done";

/// A guest on its disk's export.
struct Exported {
    machine: Machine,
    server: Server,
    guest: Guest,
}

/// A server of a guest's disk that ends after its last client.
struct Server(Child);

impl Server {
    fn start(guest: &Guest) -> Result<Self> {
        let server = Command::new(DISKFS)
            .args(["export", "guest.qcow2", "--nbd", "unix:socket", "--once"])
            .arg("--allow-backing")
            .arg(guest.images)
            .current_dir(guest.work.path())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self(server);
        let start = Instant::now();
        while !guest.at("socket").exists() {
            ensure!(start.elapsed() < Duration::from_mins(1), "no export");
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Exported {
    /// Boots a guest that runs these commands; `None`, with a message, if that is impossible here.
    fn boot(commands: &str) -> Result<Option<Self>> {
        let Some(images) = images().filter(|_| have(&["e2fsck"])) else {
            return Ok(None);
        };
        let guest = Guest::new(images, "ifupdown.raw")?;
        guest.runs(commands)?;
        guest.take_out_kernel()?;
        let server = Server::start(&guest)?;
        let socket = guest.at("socket");
        let drive = format!(
            "file=nbd+unix:///?socket={},if=virtio,format=raw,discard=unmap",
            socket.display()
        );
        let start = Start::Kernel { root: "LABEL=root" };
        let machine = Machine::with_drives(&[drive], guest.work.path(), start, &[])?;
        Ok(Some(Self {
            machine,
            server,
            guest,
        }))
    }
}

/// Expects that `qemu-img check` ends with one of these codes, and `e2fsck` finds nothing.
fn is_clean(guest: &Guest, codes: &[i32]) -> Result<()> {
    let (image, raw) = (guest.image(), guest.at("disk.raw"));
    let mut check = Command::new("qemu-img");
    let checked = check.arg("check").arg(&image).output()?;
    let code = checked.status.code().unwrap_or(-1);
    ensure!(codes.contains(&code), "qemu-img check: {checked:?}");
    let words = ["convert", "-O", "raw"].map(Path::new);
    run("qemu-img", words.into_iter().chain([&*image, &*raw]))?;
    let root = format!("{}?offset={ROOT_OFFSET_BYTES}", raw.display());
    run("e2fsck", ["-fn", &root])?;
    Ok(())
}

#[test]
fn debian_boots_from_an_export_and_writes() -> Result<()> {
    let Some(mut exported) = Exported::boot(WRITES)? else {
        return Ok(());
    };
    exported.machine.expect("marker: /dev/vda2")?;
    exported.machine.is_off()?;
    let code = exported.server.0.wait()?.code();
    ensure!(code == Some(0), "the export ends with {code:?}");
    let guest = exported.guest;
    let hash = |directory: &str| {
        let words = ["hash", &format!("guest.qcow2:{directory}/bash")];
        let hashes = String::from_utf8(guest.diskfs(&words)?)?;
        anyhow::Ok(hashes.replace(directory, ""))
    };
    let written = hash("/var/copy")?;
    ensure!(written.contains("copyright") && written == hash("/usr/share/doc")?);
    is_clean(&guest, &[0])
}

/// Without its server, the disk is as after a power cut.
#[test]
fn a_killed_export_loses_nothing_that_debian_has_synced() -> Result<()> {
    let Some(mut exported) = Exported::boot(WRITES_ON)? else {
        return Ok(());
    };
    exported.machine.expect("marker: 42")?;
    sleep(Duration::from_secs(4));
    exported.server.0.kill()?;
    exported.server.0.wait()?;
    drop(exported.machine);
    let guest = exported.guest;
    let words = ["check", "--volume", "p2", "--with", "native", "guest.qcow2"];
    guest
        .diskfs(&words)
        .context("the journal is replayed in memory")?;
    ensure!(guest.diskfs(&["cat", "guest.qcow2:/var/lib/promised"])? == b"promised\n");
    // The first change replays the journal on the disk.
    guest.diskfs(&["touch", "guest.qcow2:/var/lib/replayed"])?;
    // With 3 it reports leaked clusters, and nothing else.
    is_clean(&guest, &[0, 3])
}
