//! The initramfs of the machine's kernel: the agent and the modules that it loads (initramfs buffer
//! format, `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::io;

use cpio::newc;

use super::modules::Modules;
use diskfs_disk::Result;

/// The modules of the machine's devices, which are loaded at boot.
const BOOT_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "virtio_console"];

/// The module of the network, for programs that need it.
const NETWORK_MODULE: &str = "virtio_net";

/// The filesystems by their names for mount(2), each with the checksum modules that the kernel
/// would load by `request_module`: the filesystem's own module does not list them.
const FILESYSTEMS: &[(&str, &[&str])] = &[
    (
        "btrfs",
        &[
            "crc32c_generic",
            "xxhash_generic",
            "blake2b_generic",
            "sha256_generic",
        ],
    ),
    ("erofs", &["crc32c_generic"]),
    ("exfat", &["nls_utf8"]),
    ("ext4", &["crc32c_generic"]),
    ("f2fs", &["crc32_generic"]),
    ("hfs", &[]),
    ("hfsplus", &[]),
    ("jfs", &[]),
    ("nilfs2", &[]),
    ("ntfs3", &[]),
    ("squashfs", &[]),
    ("udf", &[]),
    ("ufs", &[]),
    (
        "vfat",
        &["nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8"],
    ),
    ("xfs", &["crc32c_generic"]),
];

/// An initramfs: files in the order in which the kernel unpacks them.
///
/// The same files make the same bytes: there are no times, all owners are root, and inode numbers
/// follow the order.
#[derive(Debug, Default)]
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    count: u32,
}

/// The device number of the console (`Documentation/admin-guide/devices.txt`), which takes messages
/// until `/dev` is mounted.
const CONSOLE: (u32, u32) = (5, 1);

impl Initramfs {
    /// Creates an archive with the agent as the first program, and the directories for its mounts.
    pub(crate) fn with_agent(agent: &[u8]) -> io::Result<Self> {
        let mut new = Self::default();
        for dir in ["dev", "proc", "sys", "mnt", "tmp"] {
            new.add_dir(dir)?;
        }
        let (major, minor) = CONSOLE;
        let console = newc::Builder::new("dev/console")
            .mode(0o600)
            .set_mode_file_type(newc::ModeFileType::Char)
            .rdev_major(major)
            .rdev_minor(minor);
        new.add(console, &[])?;
        new.add_file("init", 0o755, agent)?;
        Ok(new)
    }

    pub(crate) fn add_dir(&mut self, name: &str) -> io::Result<()> {
        let dir = newc::Builder::new(name)
            .mode(0o755)
            .set_mode_file_type(newc::ModeFileType::Directory);
        self.add(dir.nlink(2), &[])
    }

    pub(crate) fn add_file(&mut self, name: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        let file = newc::Builder::new(name)
            .mode(mode)
            .set_mode_file_type(newc::ModeFileType::Regular);
        self.add(file, contents)
    }

    fn add(&mut self, entry: newc::Builder, contents: &[u8]) -> io::Result<()> {
        let len = u32::try_from(contents.len()).map_err(io::Error::other)?;
        self.count = self.count.saturating_add(1);
        let mut writer = entry.ino(self.count).write(&mut self.bytes, len);
        io::Write::write_all(&mut writer, contents)?;
        writer.finish().map(|_| ())
    }

    /// Returns the complete archive.
    pub(crate) fn finish(mut self) -> io::Result<Vec<u8>> {
        newc::trailer(&mut self.bytes)?;
        Ok(self.bytes)
    }
}

/// Returns an initramfs with the agent, and the names of its filesystems. Module lists:
/// `modules/order` is loaded at boot, `modules/order.xfs` before XFS is mounted (likewise for each
/// filesystem), `modules/order.network` for a network.
pub(crate) fn initramfs(agent: &[u8], modules: &Modules) -> Result<(Vec<u8>, Vec<String>)> {
    let mut archive = Initramfs::with_agent(agent)?;
    archive.add_dir("modules")?;
    let mut taken = Vec::new();
    let boot = modules.with_dependencies(BOOT_MODULES)?;
    let mut lists = vec![("order".to_owned(), boot)];
    if modules.has(NETWORK_MODULE) {
        let order = modules.with_dependencies(&[NETWORK_MODULE])?;
        lists.push(("order.network".to_owned(), order));
    }
    let mut filesystems = Vec::new();
    for (name, helpers) in FILESYSTEMS {
        if modules.has(name) {
            let wanted: Vec<&str> = helpers.iter().chain([name]).copied().collect();
            let order = modules.with_dependencies(&wanted)?;
            lists.push((format!("order.{name}"), order));
            filesystems.push((*name).to_owned());
        }
    }
    for (list, order) in lists {
        let mut lines = String::new();
        for module in order {
            let file = format!("{}.ko", module.name());
            lines.push_str(&file);
            lines.push('\n');
            if !taken.contains(&file) {
                archive.add_file(&format!("modules/{file}"), 0o644, &module.into_bytes()?)?;
                taken.push(file);
            }
        }
        archive.add_file(&format!("modules/{list}"), 0o644, lines.as_bytes())?;
    }
    Ok((archive.finish()?, filesystems))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_same_files_make_the_same_bytes() {
        let make = || Initramfs::with_agent(b"agent").unwrap().finish().unwrap();
        assert_eq!(make(), make());
    }

    #[test]
    fn cpio_reads_it() {
        let mut archive = Initramfs::with_agent(b"agent").unwrap();
        archive.add_dir("modules").unwrap();
        archive
            .add_file("modules/order", 0o644, b"xfs.ko\n")
            .unwrap();
        let bytes = archive.finish().unwrap();
        let Some(()) = diskfs_fixtures::require("cpio") else {
            return;
        };
        let mut list = Command::new("cpio")
            .arg("-tv")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        io::Write::write_all(&mut list.stdin.take().unwrap(), &bytes).unwrap();
        let output = list.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 9, "{text}");
        assert!(
            lines[5].starts_with("crw-------") && lines[5].contains("5,   1"),
            "{text}"
        );
        assert!(
            lines[6].starts_with("-rwxr-xr-x") && lines[6].ends_with(" init"),
            "{text}"
        );
    }
}
