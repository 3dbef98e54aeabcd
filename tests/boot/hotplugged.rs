//! Disks that come to a running guest and go again.

use std::process::{Child, Command};

use anyhow::{Result, ensure};

use crate::images::images;
use crate::machine::{Machine, Start};
use crate::{DISKFS, Guest};

/// The guest finds each disk by its serial number, writes to it, and notices its removal.
const COMMANDS: &str = r#"
modprobe virtio_scsi
modprobe sd_mod
modprobe virtio_blk
use() {
    echo "marker: waits for $1"
    until disk=$(ls /dev/disk/by-id/*"$1"); do sleep 1; done
    test "$(lsblk --nodeps --noheadings --output SERIAL "$disk")" = "$1"
    echo "written to $1" > "$disk"
    sync "$disk"
    echo "marker: $1 $((6 * 7))"
    while test -e "$disk"; do sleep 1; done
}
use ONE
use TWO
echo "marker: $((6 * 8))"
"#;

/// A controller and a port for the disks, and the monitor.
const OPTIONS: [&str; 6] = [
    "-device",
    "virtio-scsi-pci,id=scsi0",
    "-device",
    "pcie-root-port,id=port0,chassis=1",
    "-qmp",
    "unix:qmp.sock,server=on,wait=off",
];

/// A disk that is attached, by the program that serves it.
struct Attached(Child);

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hotplug(guest: &Guest, words: &[&str]) -> Command {
    let mut command = Command::new(DISKFS);
    command
        .arg("hotplug")
        .args(words)
        .args(["--qmp", "qmp.sock"]);
    command.current_dir(guest.work.path());
    command
}

/// Runs qemu-img, the other implementation, in the directory of the guest.
fn qemu_img(guest: &Guest, words: &str) -> Result<()> {
    let mut command = Command::new("qemu-img");
    command
        .args(words.split(' '))
        .current_dir(guest.work.path());
    let status = command.status()?;
    ensure!(status.success(), "qemu-img {words}: {status}");
    Ok(())
}

/// Attaches a disk, waits until the guest has used it, and removes it.
fn comes_and_goes(guest: &Guest, machine: &mut Machine, bus: &str, serial: &str) -> Result<()> {
    machine.expect(&format!("marker: waits for {serial}"))?;
    qemu_img(guest, "create -q -f qcow2 data.qcow2 64M")?;
    let add = [
        "add",
        "data.qcow2",
        "--id",
        "data",
        "--bus",
        bus,
        "--serial",
        serial,
    ];
    let mut attached = Attached(hotplug(guest, &add).spawn()?);
    machine.expect(&format!("marker: {serial} 42"))?;
    let removed = hotplug(guest, &["remove", "data"]).status()?;
    ensure!(removed.success(), "{removed}");
    let ended = attached.0.wait()?;
    ensure!(ended.success(), "{ended}");
    qemu_img(guest, "convert -O raw data.qcow2 data.raw")?;
    let disk = std::fs::read(guest.at("data.raw"))?;
    ensure!(disk.starts_with(format!("written to {serial}\n").as_bytes()));
    std::fs::remove_file(guest.at("data.qcow2"))?;
    Ok(std::fs::remove_file(guest.at("data.raw"))?)
}

#[test]
fn debian_uses_disks_that_come_and_go() -> Result<()> {
    let Some(images) = images() else {
        return Ok(());
    };
    let guest = Guest::new(images, "ifupdown.raw")?;
    guest.runs(COMMANDS)?;
    guest.take_out_kernel()?;
    let drive = format!("file={},if=virtio,format=qcow2", guest.image().display());
    let start = Start::Kernel { root: "LABEL=root" };
    let mut machine = Machine::with_drives(&[drive], guest.work.path(), start, &OPTIONS)?;
    comes_and_goes(&guest, &mut machine, "scsi", "ONE")?;
    comes_and_goes(&guest, &mut machine, "virtio", "TWO")?;
    machine.expect("marker: 48")?;
    machine.is_off()
}
