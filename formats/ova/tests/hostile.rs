//! Malicious and randomly changed packages.

mod tools;

use std::sync::Arc;

use diskfs_block::{BlockRead, ErrorKind, Memory};
use diskfs_fixtures::Random;
use diskfs_ova::{Envelope, Ova};
use proptest::prelude::*;
use tools::{archive, envelope, parse, seal, two_disks};

#[test]
fn hostile_xml_is_refused() {
    let laughs = "<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]>\n";
    let file = "<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/shadow\">]>\n";
    let valid = two_disks();
    let after = |start: &str| valid.replacen("<!-- a < comment -->\n", start, 1);
    for text in [
        after(laughs),
        after(file),
        valid.replace("seed.iso", "&a;"),
        valid.replace("</References>", ""),
        valid.replace("ovf:fileRef=\"file1\"", "ovf:fileRef=\"file3\""),
        valid.replace("ovf:diskId=\"vmdisk1\"", ""),
        valid.replace("Envelope", "Letter"),
        valid[..valid.len() / 2].to_owned(),
        String::new(),
        "<a>".repeat(100_000),
        format!("<Envelope>{}</Envelope>", "<a>".repeat(100)),
    ] {
        let e = parse(&text).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
    }
    let many = "<File href=\"x\" id=\"y\"/>".repeat(5000);
    let e = parse(&envelope(&many, "")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    let attributes: Vec<_> = (0..100_000).map(|it| format!(" a{it}=\"\"")).collect();
    let attributes = attributes.concat();
    let file = format!("<File{attributes} href=\"x\" id=\"y\"/>");
    assert!(parse(&envelope(&file, "")).is_err());
}

#[test]
fn hostile_archives_are_refused() {
    let kind = |file: Vec<u8>| Ova::open(Arc::new(Memory::new(file))).unwrap_err().kind();
    assert_eq!(kind(Vec::new()), ErrorKind::Corrupt);
    assert_eq!(kind(vec![0; 4096]), ErrorKind::Corrupt);
    assert_eq!(kind(vec![1; 4096]), ErrorKind::Corrupt);
    assert_eq!(kind(archive("machine.txt", b"")), ErrorKind::Corrupt);
    let valid = archive("machine.ovf", two_disks().as_bytes());
    assert_eq!(kind(valid[..600].to_vec()), ErrorKind::Corrupt);
    // Sizes past the end, and past everything.
    for size in [
        &b"77777777777"[..],
        b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff",
    ] {
        let mut file = valid.clone();
        file[124..135].copy_from_slice(size);
        seal(&mut file);
        assert_eq!(kind(file), ErrorKind::Corrupt);
    }
    // Extended headers without an end, and of any size.
    let mut extended = valid.clone();
    extended[156] = b'x';
    seal(&mut extended);
    assert_eq!(kind(extended), ErrorKind::Corrupt);
    let mut long = archive("machine.ovf", &vec![0; 70_000]);
    long[156] = b'L';
    seal(&mut long);
    assert_eq!(kind(long), ErrorKind::Unsupported);
    let mut sparse = valid.clone();
    sparse[156] = b'S';
    seal(&mut sparse);
    assert_eq!(kind(sparse), ErrorKind::Unsupported);
    let endless = valid[..512].to_vec();
    let mut endless = endless.repeat(20_000);
    for header in endless.chunks_mut(512) {
        header[124..135].copy_from_slice(b"00000000000");
        seal(header);
    }
    assert_eq!(kind(endless), ErrorKind::Unsupported);
    let large = archive("machine.ovf", &vec![b' '; 5 << 20]);
    assert_eq!(kind(large), ErrorKind::Unsupported);
}

#[test]
fn changed_archives_do_no_harm() {
    let mut valid = archive("machine.ovf", two_disks().as_bytes());
    valid.truncate(valid.len() - 1024);
    valid.extend(archive("a disk.vmdk", b"contents"));
    let count = std::env::var("DISKFS_MUTATIONS").map_or(3000, |it| it.parse().unwrap());
    for seed in 0..count {
        let mut random = Random::new(seed);
        let mut file = valid.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(file.len() as u64);
            let at = usize::try_from(at).unwrap();
            file[at] = random.bytes(1)[0];
        }
        if random.below(2) == 0 {
            seal(&mut file);
        }
        if let Ok(ova) = Ova::open(Arc::new(Memory::new(file))) {
            for disk in ova.disks() {
                if let Ok(Some(device)) = ova.device(disk) {
                    assert!(device.size_bytes() <= valid.len() as u64);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_text_is_parsed_or_refused(
        text in "(<(/|!)?(Envelope|References|File|Disk)?( id=\"?x)?/?>|&#?x?[0-9a]*;|.){0,60}",
    ) {
        let _ = Envelope::parse(text.as_bytes());
    }
}
