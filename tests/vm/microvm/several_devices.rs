//! btrfs over several devices, in the images of several disks of a guest.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use diskfs_fixtures::{Mount, Workshop, pattern, require_fuse, require_root, run};

use super::endings::{machines, own_appliance};
use super::pool::all_end;
use super::{appliance, at, command, require_all, stderr};

/// The images of a filesystem.
struct Devices {
    images: Vec<PathBuf>,
    own: PathBuf,
    shop: Workshop,
}

/// Loop devices, detached when dropped.
struct Loops(Vec<String>);

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            let _ = run("losetup", ["-d", device]);
        }
    }
}

impl Devices {
    /// Makes a filesystem with this profile of data and metadata.
    fn new(count: usize, profile: &str) -> Option<Self> {
        let appliance = appliance()?;
        require_all(&["mkfs.btrfs", "btrfs", "losetup"])?;
        require_root()?;
        let shop = Workshop::new().unwrap();
        let image = |nth: usize| shop.sparse_file(&format!("disk{nth}.img"), 256 << 20);
        let images: Vec<_> = (0..count).map(|nth| image(nth).unwrap()).collect();
        let words = ["-q", "-d", profile, "-m", profile].map(Path::new);
        run(
            "mkfs.btrfs",
            words.into_iter().chain(images.iter().map(|it| &**it)),
        )
        .unwrap();
        let own = own_appliance(&shop, &appliance);
        Some(Self { images, own, shop })
    }

    /// Returns the command, with the first image in `operands` and the others by `--add`.
    fn command(&self, words: &[&OsStr]) -> Command {
        let mut command = command(&self.own, words);
        command.env("DISKFS_DRIVER", "").stdin(Stdio::null());
        for image in &self.images[1..] {
            command.arg("--add").arg(image);
        }
        command
    }

    /// Runs a command, which must succeed.
    fn run(&self, words: &[&OsStr]) -> Vec<u8> {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        output.stdout
    }

    fn first(&self) -> &Path {
        &self.images[0]
    }

    /// Checks the filesystem with `btrfs check` and the kernel, and returns the contents of files.
    fn checked_by_kernel(&self, names: &[&str]) -> Vec<Vec<u8>> {
        let mut loops = Loops(Vec::new());
        for image in &self.images {
            let words = ["--find".as_ref(), "--show".as_ref(), image.as_os_str()];
            loops
                .0
                .push(run("losetup", words).unwrap().trim().to_owned());
        }
        check(&loops.0[0]);
        let devices = loops.0.iter().map(|device| format!("device={device}"));
        let options = devices
            .chain(["ro".to_owned()])
            .collect::<Vec<_>>()
            .join(",");
        let mount = Mount::by("mount", ["-t", "btrfs", "-o", &options, &loops.0[0]]).unwrap();
        run(
            "btrfs",
            [
                "scrub".as_ref(),
                "start".as_ref(),
                "-Br".as_ref(),
                mount.path(),
            ],
        )
        .unwrap();
        let read = |name: &&str| fs::read(mount.path().join(name)).unwrap();
        let contents = names.iter().map(read).collect();
        mount.unmount().unwrap();
        contents
    }

    /// Checks that diskfs itself reads the same as the kernel.
    fn check_files(&self, files: &[(&str, &[u8])]) {
        let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
        let by_kernel = self.checked_by_kernel(&names);
        for ((name, expected), found) in files.iter().zip(by_kernel) {
            assert!(found == *expected, "{name} differs for the kernel");
            let path = at(self.first(), &format!("/{name}"));
            for driver in ["native", "vm"] {
                let words = ["cat".as_ref(), path.as_os_str(), "--driver".as_ref()];
                let read = self.run(&[&words[..], &[driver.as_ref()]].concat());
                assert!(read == *expected, "{name} differs for {driver}");
            }
        }
    }
}

fn written(count: usize, profile: &str) {
    let Some(devices) = Devices::new(count, profile) else {
        return;
    };
    let data = pattern(profile, 5 << 20);
    let source = devices.shop.path("source");
    fs::write(&source, &data).unwrap();
    let dir = at(devices.first(), "/dir");
    devices.run(&["mkdir".as_ref(), &dir]);
    let copied = at(devices.first(), "/dir/copied");
    devices.run(&["cp".as_ref(), source.as_os_str(), &copied]);
    let moved = at(devices.first(), "/dir/moved");
    devices.run(&["mv".as_ref(), &copied, &moved]);
    devices.check_files(&[("dir/moved", &data)]);
}

/// Runs `btrfs check`. It looks for the other devices among all block devices of the host, and stops
/// early if other tests detach theirs meanwhile: all of ours are attached, so it is asked again.
fn check(first: &str) {
    for _ in 0..10 {
        match run("btrfs", ["check", first]) {
            Err(error) if error.to_string().contains("is missing") => {
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            checked => return drop(checked.unwrap()),
        }
    }
    panic!("btrfs check finds no other device of {first}");
}

#[test]
fn raid1_is_written() {
    written(2, "raid1");
}

#[test]
fn raid0_over_three_images_is_written() {
    written(3, "raid0");
}

#[cfg(feature = "fuse")]
#[test]
fn it_is_mounted_for_writing() {
    let Some(()) = require_fuse() else { return };
    let Some(devices) = Devices::new(2, "raid1") else {
        return;
    };
    let mountpoint = devices.shop.path("mnt");
    fs::create_dir(&mountpoint).unwrap();
    let image = devices.first().as_os_str();
    devices.run(&[
        "mount".as_ref(),
        "--rw".as_ref(),
        image,
        mountpoint.as_os_str(),
    ]);
    let data = pattern("mounted", 20 << 20);
    fs::write(mountpoint.join("big"), &data).unwrap();
    for n in 0..200 {
        fs::write(mountpoint.join(format!("small {n}")), n.to_string()).unwrap();
    }
    fs::remove_file(mountpoint.join("small 7")).unwrap();
    let unmounted = command(&devices.own, ["umount".as_ref(), mountpoint.as_os_str()]);
    let output = { unmounted }.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    all_end(&devices.own);
    devices.check_files(&[("big", &data), ("small 199", b"199")]);
}

#[test]
fn a_program_never_gets_one_device_of_several() {
    let Some(devices) = Devices::new(2, "raid1") else {
        return;
    };
    for command in ["check", "sparsify"] {
        let words = [command.as_ref(), devices.first().as_os_str()];
        let output = devices.command(&words).output().unwrap();
        let said = stderr(&output);
        assert!(
            said.contains("filesystem of 2 devices"),
            "{command}: {said}"
        );
        assert!(!output.status.success(), "{said}");
    }
}

#[test]
fn a_missing_device_is_named_before_a_machine_starts() {
    for (profile, count) in [("raid1", 2), ("raid0", 3)] {
        let Some(mut devices) = Devices::new(count, profile) else {
            return;
        };
        let last = devices.images.pop().unwrap();
        let described = run(
            "btrfs",
            [
                "inspect-internal".as_ref(),
                "dump-super".as_ref(),
                last.as_os_str(),
            ],
        );
        let described = described.unwrap();
        let uuid = described
            .lines()
            .find_map(|line| line.strip_prefix("dev_item.uuid"))
            .unwrap()
            .trim();
        let path = at(devices.first(), "/file");
        // The appliance is damaged: a machine that were started would fail with another error.
        fs::write(devices.own.join("uml.crc32c"), "00000000 1\n").unwrap();
        for words in [
            &["touch".as_ref(), path.as_os_str()][..],
            &[
                "stat".as_ref(),
                path.as_os_str(),
                "--driver".as_ref(),
                "vm".as_ref(),
            ],
        ] {
            let volume = ["--volume", "disk"].map(OsStr::new);
            let output = devices
                .command(&[words, &volume].concat())
                .output()
                .unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            let device = format!("device {count} (UUID {uuid})");
            assert!(said.contains(&device) && said.contains("--add"), "{said}");
            // Without the volume, all filesystems are searched for a system first.
            let output = devices.command(words).output().unwrap();
            let said = stderr(&output);
            assert!(!output.status.success(), "{said}");
            assert!(said.contains(uuid) && said.contains("--add"), "{said}");
            assert_eq!(machines(&devices.own), []);
        }
    }
}
