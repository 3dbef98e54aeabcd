//! Disks that `diskfs build` makes of a Debian tree, booted by the firmware: systemd-boot with the
//! root on LVM, and GRUB with the tree from a container image of two layers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use diskfs_fixtures::{cached, debian_tree, have, require_root, run};

use crate::DISKFS;
use crate::machine::{Machine, Start};

/// The version of the recipe; change it together with the recipe.
const RECIPE: &str = "built-2";

/// The steps that let the system print a line about its disk, and power itself off.
const STEPS: &str = "deploy:
  - hostname: built
  - write:
      path: /etc/systemd/system/marker.service
      text: |
        [Unit]
        Description=Prints a line about the disk
        After=local-fs.target
        [Service]
        Type=oneshot
        StandardOutput=tty
        TTYPath=/dev/ttyS0
        ExecStart=/bin/sh -c 'echo; echo \"marker: $(findmnt -n -o SOURCE,FSTYPE / | tr -s \" \") $(findmnt -n -o FSTYPE /boot/efi) $(hostname)\"; systemctl --no-block poweroff'
  - link: {path: /etc/systemd/system/multi-user.target.wants/marker.service, target: ../marker.service}
";

const ON_LVM: &str = "disk: {size: fit+10%}
seed: on LVM
partitions:
  - {type: esp, size: 128M, filesystem: {type: fat, label: ESP, mount: /boot/efi}}
  - lvm:
      group: vg0
      volumes:
        - {name: root, size: fit+64M, filesystem: {type: ext4, label: root, mount: /}}
        - {name: swap, size: 64M, filesystem: {type: swap}}
sources: [{tar: tree.tar}]
bootloader: {type: systemd-boot, arguments: \"console=ttyS0,115200n8\"}
";

const OF_LAYERS: &str = "partitions:
  - {type: esp, filesystem: {type: fat, label: ESP, mount: /boot/efi}}
  - {type: root-x86-64, size: fit+64M, filesystem: {type: ext4, label: root, mount: /}}
sources: [{oci: image}]
bootloader: {type: grub, arguments: \"console=ttyS0,115200n8\"}
";

/// Makes an archive of `docker save`, unpacked: the second layer adds /etc and removes a file of the
/// first one. The tree itself, which other tests use, stays as it is.
const LAYERS: &str = "set -e
mkdir -p image/1 image/2 upper
cp -a \"$1/etc\" upper/etc
: > upper/.wh.removed
echo lower > removed
tar --numeric-owner --xattrs -C \"$1\" -cf tree.tar .
tar --numeric-owner --xattrs -C \"$1\" --exclude=./etc/* -cf image/1/layer.tar . -C \"$PWD\" ./removed
tar --numeric-owner --xattrs -C upper -cf image/2/layer.tar .
rm -r upper removed
first=$(sha256sum image/1/layer.tar | cut -d' ' -f1)
second=$(sha256sum image/2/layer.tar | cut -d' ' -f1)
printf '{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]}}' $first $second > image/config.json
printf '[{\"Config\":\"config.json\",\"RepoTags\":[\"guest:1\"],\"Layers\":[\"1/layer.tar\",\"2/layer.tar\"]}]' > image/manifest.json
";

/// Returns the directory with the archive and the container image; `None`, with a message, if they
/// can't be made.
fn sources() -> Option<&'static Path> {
    static SOURCES: OnceLock<PathBuf> = OnceLock::new();
    require_root()?;
    let programs = ["debootstrap", "tar", "sha256sum", "qemu-system-x86_64"];
    if !have(&programs) {
        return None;
    }
    let sources = SOURCES.get_or_init(|| {
        cached(env!("CARGO_TARGET_TMPDIR"), RECIPE, make_sources)
            .unwrap_or_else(|error| panic!("{error:#}"))
    });
    Some(sources)
}

fn make_sources(directory: &Path) -> Result<()> {
    let tree = debian_tree(env!("CARGO_TARGET_TMPDIR"))?;
    let script = format!("cd \"$0\"\n{LAYERS}");
    run("sh", ["-c".as_ref(), script.as_ref(), directory, &tree])?;
    Ok(())
}

/// Builds a disk, boots it, and expects this line of the system.
fn check(plan: &str, line: &str) -> Result<()> {
    let Some(sources) = sources() else {
        return Ok(());
    };
    let work = tempfile::tempdir()?;
    for name in ["tree.tar", "image"] {
        std::os::unix::fs::symlink(sources.join(name), work.path().join(name))?;
    }
    fs::write(work.path().join("plan.yaml"), format!("{plan}{STEPS}"))?;
    let output = Command::new(DISKFS)
        .args(["build", "plan.yaml", "-o", "disk.qcow2"])
        .current_dir(work.path())
        .env("DISKFS_VM", "none")
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "diskfs build: {told}");
    let image = work.path().join("disk.qcow2");
    run("qemu-img", ["check".as_ref(), image.as_path()])?;
    let mut machine = Machine::start(&[&image], work.path(), Start::Firmware)?;
    machine.expect(line)?;
    machine.is_off()
}

#[test]
fn a_disk_with_lvm_boots_by_systemd_boot() -> Result<()> {
    check(ON_LVM, "marker: /dev/mapper/vg0-root ext4 vfat built")
}

#[test]
fn a_disk_of_two_layers_boots_by_grub() -> Result<()> {
    check(OF_LAYERS, "marker: /dev/vda2 ext4 vfat built")
}
