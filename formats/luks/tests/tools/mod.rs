//! LUKS volumes that `cryptsetup` and QEMU make in files, without device-mapper.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, File, Memory};
use diskfs_fixtures::run;
use diskfs_luks::{Header, Key, Limits, Unlocked};

pub(crate) const PASSPHRASE: &[u8] = b"correct horse";

pub(crate) fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is text")
}

pub(crate) fn key_file(dir: &Path) -> PathBuf {
    let path = dir.join("key");
    std::fs::write(&path, PASSPHRASE).unwrap();
    path
}

/// Runs `cryptsetup` with its arguments, and the passphrase from a file.
pub(crate) fn cryptsetup(dir: &Path, args: &[&str]) {
    try_cryptsetup(dir, args).unwrap();
}

fn try_cryptsetup(dir: &Path, args: &[&str]) -> anyhow::Result<()> {
    let key = key_file(dir);
    let common = ["--batch-mode", "--key-file", path_text(&key)];
    run("cryptsetup", [&common[..], args].concat()).map(drop)
}

/// The options for low costs of PBKDF2, so that tests are fast.
pub(crate) const FAST: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];

/// Formats a new volume and returns its file. Its data is whatever decrypting zeroes gives.
pub(crate) fn format(dir: &Path, mib: u64, args: &[&str]) -> PathBuf {
    let path = dir.join("volume.img");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(mib << 20).unwrap();
    cryptsetup(dir, &[&["luksFormat"], args, &[path_text(&path)]].concat());
    path
}

/// Has `cryptsetup` encrypt `plain` into a LUKS2 volume, without device-mapper.
pub(crate) fn try_encrypted(dir: &Path, plain: &[u8], args: &[&str]) -> anyhow::Result<PathBuf> {
    let path = dir.join("volume.img");
    std::fs::write(&path, plain)?;
    let file = std::fs::OpenOptions::new().write(true).open(&path)?;
    file.set_len(plain.len() as u64 + (32 << 20))?;
    let encrypt = [
        "reencrypt",
        "--encrypt",
        "--type",
        "luks2",
        "--reduce-device-size",
        "32M",
    ];
    try_cryptsetup(dir, &[&encrypt[..], args, &[path_text(&path)]].concat())?;
    Ok(path)
}

pub(crate) fn memory(path: &Path) -> Arc<Memory> {
    Arc::new(Memory::new(std::fs::read(path).unwrap()))
}

pub(crate) fn writable(path: &Path) -> Arc<dyn BlockWrite> {
    Arc::new(File::open_read_write(path).unwrap())
}

pub(crate) fn unlock<D: BlockRead + 'static>(device: &Arc<D>) -> Unlocked<D> {
    unlock_with(device, &Key::passphrase(PASSPHRASE))
}

pub(crate) fn unlock_with<D: BlockRead + 'static>(device: &Arc<D>, key: &Key) -> Unlocked<D> {
    let header = Header::read(&**device).unwrap().expect("a LUKS header");
    let key = header.unlock(&**device, key, &Limits::default()).unwrap();
    Unlocked::new(Arc::clone(device), &header, &key).unwrap()
}

pub(crate) fn read(device: &dyn BlockRead, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    device.read_at(offset, &mut bytes).unwrap();
    bytes
}
