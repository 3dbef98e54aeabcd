//! Commands on md RAID arrays.

use diskfs::luks::Key;
use diskfs::{Disk, Keys, Volume};
use diskfs_fixtures::{image, pattern, require, run};

use crate::diskfs;

#[test]
fn arrays_are_volumes() {
    let image = image("md.raw");
    let info = diskfs(&image, &["info", "--json", "md.raw"]).json();
    let arrays = info["arrays"].as_array().unwrap();
    let name = |row: &serde_json::Value| row["name"].as_str().unwrap().to_owned();
    let raid6 = arrays.iter().find(|row| name(row).ends_with("raid6"));
    let raid6 = raid6.unwrap();
    assert_eq!(
        (&raid6["level"], &raid6["volume"]),
        (&"raid6".into(), &"md7".into())
    );
    let members = raid6["members"].as_array().unwrap();
    let expected: Vec<String> = (22..27).map(|n| format!("p{n}")).collect();
    assert_eq!(members, &expected);
    let text = diskfs(&image, &["info", "md.raw"]).text();
    assert!(text.contains("p22, p23, p24, p25, p26"), "{text}");
}

#[test]
fn what_has_parity_is_read_and_not_written() {
    let image = image("md.raw");
    let disk = Disk::options().read_only(false).open(image.path()).unwrap();
    let volume = disk.volume("md7").unwrap();
    let mut bytes = vec![0; 100_000];
    volume.device().unwrap().read_at(0, &mut bytes).unwrap();
    assert!(bytes == pattern("raid6", bytes.len()));
    let error = volume.writable_device().map(drop).unwrap_err();
    assert_eq!(error.kind(), diskfs::ErrorKind::Unsupported);
}

/// Returns the array of the image whose name ends like this.
fn array(disk: &Disk, name: &str) -> Volume {
    let mut volumes = disk.volumes().unwrap().iter();
    let is_meant = |volume: &&Volume| {
        let array = volume.array();
        array.is_some_and(|array| array.metadata().name.ends_with(name))
    };
    volumes.find(is_meant).expect(name).clone()
}

#[test]
fn stripes_and_copies_are_written() {
    let image = image("md.raw");
    let contents = pattern("new", 70_000);
    let opened = || Disk::options().read_only(false).open(image.path()).unwrap();
    for name in ["raid0", "raid1", "raid10"] {
        let disk = opened();
        let device = array(&disk, name).writable_device().unwrap();
        device.write_at(5000, &contents).unwrap();
        device.flush().unwrap();
        drop(device);
        disk.close().unwrap();
        // Clean again: another writer may come, and all copies are the same.
        let disk = opened();
        let volume = array(&disk, name);
        let mut bytes = vec![0; contents.len()];
        volume.device().unwrap().read_at(5000, &mut bytes).unwrap();
        assert!(bytes == contents, "{name}");
        volume.writable_device().unwrap();
        if name == "raid1" {
            let copies = volume.array().unwrap().members().map(|member| {
                let member = member.unwrap();
                let mut bytes = vec![0; usize::try_from(member.size_bytes()).unwrap()];
                member.device().unwrap().read_at(0, &mut bytes).unwrap();
                let found = bytes.windows(contents.len()).position(|at| at == contents);
                found.expect("find the copy")
            });
            assert_eq!(copies.count(), 2);
        }
        disk.close().unwrap();
    }
}

#[test]
fn several_writers_of_an_array_are_one() {
    let image = image("md.raw");
    let opened = || Disk::options().read_only(false).open(image.path()).unwrap();
    let disk = opened();
    let volume = array(&disk, "raid1");
    let first = volume.writable_device().unwrap();
    first.write_at(0, b"first").unwrap();
    // As two logical volumes on it are written.
    let second = volume.writable_device().unwrap();
    second.write_at(4096, b"second").unwrap();
    drop(first);
    second.write_at(8192, b"third").unwrap();
    drop((second, volume));
    disk.close().unwrap();
    let disk = opened();
    let volume = array(&disk, "raid1");
    let mut bytes = [0; 5];
    volume.device().unwrap().read_at(8192, &mut bytes).unwrap();
    assert_eq!(&bytes, b"third");
    // Closing left it marked as in sync.
    volume.writable_device().unwrap();
}

/// The contents of an encrypted array stay open until the disk is closed.
#[test]
fn an_array_is_left_clean_under_encryption() {
    if require("cryptsetup").is_none() {
        return;
    }
    let image = image("md.raw");
    let opened = || Disk::options().read_only(false).open(image.path()).unwrap();
    let disk = opened();
    let volume = array(&disk, "raid10");
    let (luks, key) = (
        image.directory().join("luks"),
        image.directory().join("key"),
    );
    let file = std::fs::File::create(&luks).unwrap();
    file.set_len(volume.size_bytes()).unwrap();
    std::fs::write(&key, "secret").unwrap();
    // With the smallest possible header.
    let words = "--batch-mode luksFormat --type luks1 --key-size 256 --align-payload 8 \
        --pbkdf-force-iterations 1000 --key-file";
    let words = words.split_ascii_whitespace().map(std::path::Path::new);
    run("cryptsetup", words.chain([&*key, &*luks])).unwrap();
    let device = volume.writable_device().unwrap();
    device.write_at(0, &std::fs::read(&luks).unwrap()).unwrap();
    drop((device, volume));
    disk.close().unwrap();

    let disk = Disk::options()
        .read_only(false)
        .keys(Keys::default().with_all(Key::passphrase(b"secret")))
        .open(image.path())
        .unwrap();
    let inside = format!("{}/luks", array(&disk, "raid10").name());
    let device = disk.volume(&inside).unwrap().writable_device().unwrap();
    device.write_at(0, b"inside").unwrap();
    drop(device);
    disk.close().unwrap();
    array(&opened(), "raid10").writable_device().unwrap();
}
