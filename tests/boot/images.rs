//! Bootable Debian systems: with ifupdown, with netplan and NetworkManager under UEFI and GRUB, and
//! on LVM.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use diskfs_fixtures::{Lvm, Mount, Part, Variant, cached, debootstrap, require, require_root, run};

/// The version of the recipe; change it together with the recipe.
const RECIPE: &str = "boot-1";

/// The packages of the system with ifupdown, besides the essential ones: init, ssh, and the tools
/// that find its root on LVM.
const PACKAGES: &str = "systemd-sysv,udev,dbus,linux-image-cloud-amd64,openssh-server,sudo,ifupdown,\
    iproute2,lvm2";

/// The packages of the other system instead of ifupdown, as arguments of apt.
const OTHER_PACKAGES: [&str; 4] = [
    "ifupdown-",
    "netplan.io",
    "network-manager",
    "grub-efi-amd64-bin",
];

const MIB: u64 = 1 << 20;

/// The size of each disk, which is sparse.
const DISK_BYTES: u64 = 2048 * MIB;

/// The offset of the system partition, which is empty if no firmware reads it.
const ESP_OFFSET_BYTES: u64 = MIB;

const ESP_BYTES: u64 = 64 * MIB;

/// The offset of the root, or of the group that contains it.
pub(crate) const ROOT_OFFSET_BYTES: u64 = ESP_OFFSET_BYTES + ESP_BYTES;

/// The size of the root, which leaves the last 33 sectors to the GPT, and space for LVM's metadata.
const ROOT_BYTES: u64 = DISK_BYTES - ROOT_OFFSET_BYTES - 16 * MIB;

const FSTAB: &str = "LABEL=root / ext4 errors=remount-ro 0 1\n";

const GRUB_DEFAULTS: &str = "GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n\
    GRUB_CMDLINE_LINUX=\"\"\n";

/// The settings as grub-mkconfig writes them, without those for a screen.
const GRUB_CFG: &str = "set timeout=0
menuentry 'Debian GNU/Linux' --class debian --class gnu-linux --class gnu --class os $menuentry_id_option 'gnulinux-simple' {
\tinsmod part_gpt
\tinsmod ext2
\tsearch --no-floppy --label --set=root root
\techo\t'Loading Linux ...'
\tlinux\t/vmlinuz root=LABEL=root ro  quiet
\techo\t'Loading initial ramdisk ...'
\tinitrd\t/initrd.img
}
";

/// The first settings that GRUB's image reads, on the system partition.
const ESP_GRUB_CFG: &str = "search --no-floppy --label root --set=root\n\
    set prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n";

/// GRUB with all of its modules, in the guest.
const GRUB_IMAGE: &str = "usr/lib/grub/x86_64-efi/monolithic/grubx64.efi";

/// Returns the directory of the images; `None`, with a message, if they can't be built.
pub(crate) fn images() -> Option<&'static Path> {
    static IMAGES: OnceLock<PathBuf> = OnceLock::new();
    require_root()?;
    for program in [
        "debootstrap",
        "sgdisk",
        "mcopy",
        "mkfs.vfat",
        "lvm",
        "ssh",
        "qemu-img",
        "qemu-system-x86_64",
    ] {
        require(program)?;
    }
    let images = IMAGES.get_or_init(|| {
        cached(env!("CARGO_TARGET_TMPDIR"), RECIPE, build)
            .unwrap_or_else(|error| panic!("{error:#}"))
    });
    Some(images)
}

fn build(directory: &Path) -> Result<()> {
    let ifupdown = directory.join("ifupdown.raw");
    make_disk(&ifupdown, "8300")?;
    make_root(&ifupdown)?;
    let mounted = mount(&ifupdown)?;
    debootstrap(mounted.path(), Variant::Minimal, PACKAGES)?;
    fs::write(mounted.path().join("etc/fstab"), FSTAB)?;
    mounted.unmount()?;
    make_lvm(&ifupdown, &directory.join("lvm.raw"))?;
    make_uefi(&ifupdown, &directory.join("uefi.raw"))
}

/// Makes a GPT with an empty system partition, and one of type `kind` after it.
fn make_disk(disk: &Path, kind: &str) -> Result<()> {
    File::create(disk)?.set_len(DISK_BYTES)?;
    let disk = disk.to_str().context("the path is not valid UTF-8")?;
    let words = ["-n", "1:2048:+64M", "-t", "1:ef00", "-n", "2:0:0", "-t"];
    let kind = format!("2:{kind}");
    run("sgdisk", words.into_iter().chain([&*kind, disk]))?;
    Ok(())
}

fn make_root(disk: &Path) -> Result<()> {
    let offset = format!("offset={ROOT_OFFSET_BYTES}");
    let blocks = (ROOT_BYTES / 4096).to_string();
    let words = [
        "-q", "-F", "-t", "ext4", "-b", "4096", "-L", "root", "-E", &offset,
    ];
    let words = words.iter().map(Path::new);
    run("mke2fs", words.chain([disk, Path::new(&blocks)]))?;
    Ok(())
}

fn mount(disk: &Path) -> Result<Mount> {
    // dpkg syncs after every file; a crash here only costs another run.
    let options = format!("offset={ROOT_OFFSET_BYTES},noatime,barrier=0");
    Mount::of_image(disk, &options)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let words = [Path::new("--sparse=always"), from, to];
    run("cp", words)?;
    Ok(())
}

/// Copies bytes of one file into another existing file; holes stay holes.
fn copy_bytes(from: (&Path, u64), to: (&Path, u64), len_bytes: u64) -> Result<()> {
    for bytes in [from.1, to.1, len_bytes] {
        ensure!(
            bytes.is_multiple_of(MIB),
            "{bytes} bytes are not a whole number of MiB"
        );
    }
    let (input, output) = (from.0.display(), to.0.display());
    let (skip, seek, count) = (from.1 / MIB, to.1 / MIB, len_bytes / MIB);
    let words = format!(
        "if={input}\nof={output}\nbs=1M\nskip={skip}\nseek={seek}\ncount={count}\nconv=sparse,notrunc\nstatus=none"
    );
    run("dd", words.lines())?;
    Ok(())
}

/// Makes the same root on a logical volume.
fn make_lvm(from: &Path, disk: &Path) -> Result<()> {
    make_disk(disk, "8e00")?;
    let lvm = Lvm::new(&[Part {
        image: disk,
        start_bytes: ROOT_OFFSET_BYTES,
        len_bytes: Some(DISK_BYTES - ROOT_OFFSET_BYTES - MIB),
    }])?;
    lvm.run("pvcreate -q @0")?;
    lvm.run("vgcreate -q -s 1m vg0 @0")?;
    let root = format!(
        "lvcreate -q -an -Zn -Wn -n root -l {} vg0",
        ROOT_BYTES / MIB
    );
    lvm.run(&root)?;
    let rows = lvm.report("pvs", "pe_start")?;
    let first = rows[0]["pe_start"].as_str().context("pe_start")?;
    let at = ROOT_OFFSET_BYTES + first.parse::<u64>()?;
    copy_bytes((from, ROOT_OFFSET_BYTES), (disk, at), ROOT_BYTES)
}

/// Makes the other system, which UEFI's firmware boots.
fn make_uefi(from: &Path, disk: &Path) -> Result<()> {
    copy(from, disk)?;
    let mounted = mount(disk)?;
    let root = mounted.path();
    change_packages(root)?;
    fs::create_dir_all(root.join("boot/grub"))?;
    fs::write(root.join("boot/grub/grub.cfg"), GRUB_CFG)?;
    fs::write(root.join("etc/default/grub"), GRUB_DEFAULTS)?;
    let esp = disk.with_extension("esp");
    make_esp(&esp, &root.join(GRUB_IMAGE))?;
    mounted.unmount()?;
    copy_bytes((&esp, 0), (disk, ESP_OFFSET_BYTES), ESP_BYTES)?;
    fs::remove_file(esp)?;
    Ok(())
}

fn change_packages(root: &Path) -> Result<()> {
    fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf"))?;
    let words = "DEBIAN_FRONTEND=noninteractive chroot";
    let apt = "apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io install";
    let words = words
        .split(' ')
        .map(Path::new)
        .chain([root])
        .chain(apt.split(' ').map(Path::new))
        .chain(OTHER_PACKAGES.map(Path::new));
    run("env", words)?;
    // The choice of a network stack also depends on the existing files.
    let interfaces = root.join("etc/network");
    if interfaces.exists() {
        fs::remove_dir_all(interfaces)?;
    }
    Ok(())
}

fn make_esp(esp: &Path, grub: &Path) -> Result<()> {
    File::create(esp)?.set_len(ESP_BYTES)?;
    run(
        "mkfs.vfat",
        ["-F", "32"].map(Path::new).iter().chain([&esp]),
    )?;
    let configuration = esp.with_extension("cfg");
    fs::write(&configuration, ESP_GRUB_CFG)?;
    let image = [Path::new("-i"), esp];
    let directories = ["::EFI", "::EFI/BOOT", "::EFI/debian"].map(Path::new);
    run("mmd", image.into_iter().chain(directories))?;
    for (from, to) in [
        (grub, "::EFI/BOOT/BOOTX64.EFI"),
        (&configuration, "::EFI/debian/grub.cfg"),
    ] {
        run("mcopy", image.into_iter().chain([from, Path::new(to)]))?;
    }
    fs::remove_file(configuration)?;
    Ok(())
}
