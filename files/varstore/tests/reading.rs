//! Tests of reading stores.

mod common;

use common::{empty, mixed, node, path, pc, sata, template};
use diskfs_block::ErrorKind;
use diskfs_varstore::testing::Template;
use diskfs_varstore::{
    Attributes, DevicePath, FaultTolerantWrite, Guid, HardDrive, LoadOption, VariableStore,
};

/// Returns the entries of a store in the format in which the firmware prints them.
fn lines(store: &VariableStore) -> Vec<String> {
    let entries = store.boot_entries().into_iter();
    let lines = entries.map(|entry| {
        let option = entry.option.unwrap();
        assert!(option.is_active());
        format!(
            "Boot{:04X} \"{}\" from {}",
            entry.number,
            option.description,
            option.path().unwrap()
        )
    });
    lines.collect()
}

/// The entries are those that OVMF printed when it tried them ("`BdsDxe: failed to load ...`").
#[test]
fn entries_are_what_the_firmware_says() {
    assert_eq!(
        lines(&sata())[1..],
        [
            r#"Boot0001 "UEFI QEMU DVD-ROM QM00005 " from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x2,0xFFFF,0x0)"#,
            r#"Boot0002 "UEFI Misc Device" from PciRoot(0x0)/Pci(0x5,0x0)"#,
            r#"Boot0003 "UEFI QEMU NVMe Ctrl abc 1" from PciRoot(0x0)/Pci(0x7,0x0)/NVMe(0x1,00-00-00-00-00-00-00-00)"#,
            r#"Boot0004 "UEFI QEMU HARDDISK QM00001 " from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x0,0xFFFF,0x0)"#,
            r#"Boot0005 "UEFI QEMU HARDDISK QM00003 " from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0)"#,
            r#"Boot0006 "EFI Internal Shell" from Fv(7CB8BDC9-F8EB-4F34-AAEA-3EE4AF6516A1)/FvFile(7C04A583-9E3E-4F1C-AD65-E05268D0B4D1)"#,
        ]
    );
    assert_eq!(
        lines(&pc())[1..8],
        [
            r#"Boot0001 "UEFI QEMU DVD-ROM QM00003 " from PciRoot(0x0)/Pci(0x1,0x1)/Ata(Secondary,Master,0x0)"#,
            r#"Boot0002 "UEFI QEMU QEMU CD-ROM " from PciRoot(0x0)/Pci(0x6,0x0)/Scsi(0x0,0x1)"#,
            r#"Boot0003 "UEFI QEMU HARDDISK QM00001 " from PciRoot(0x0)/Pci(0x1,0x1)/Ata(Primary,Master,0x0)"#,
            r#"Boot0004 "UEFI QEMU HARDDISK QM00002 " from PciRoot(0x0)/Pci(0x1,0x1)/Ata(Primary,Slave,0x0)"#,
            r#"Boot0005 "UEFI QEMU QEMU HARDDISK " from PciRoot(0x0)/Pci(0x6,0x0)/Scsi(0x0,0x0)"#,
            r#"Boot0006 "UEFI Misc Device" from PciRoot(0x0)/Pci(0x8,0x0)"#,
            r#"Boot0007 "UEFI Misc Device 2" from PciRoot(0x0)/Pci(0x9,0x0)"#,
        ]
    );
    assert_eq!(
        lines(&mixed())[2..9],
        [
            r#"Boot0002 "UEFI QEMU QEMU USB HARDDRIVE 1-0000:00:01.0-1" from PciRoot(0x0)/Pci(0x1,0x0)/USB(0x0,0x0)"#,
            r#"Boot0003 "UEFI Misc Device" from PciRoot(0x0)/Pci(0x5,0x0)"#,
            r#"Boot0004 "UEFI QEMU QEMU HARDDISK " from PciRoot(0x0)/Pci(0x6,0x0)/Scsi(0x0,0x0)"#,
            r#"Boot0005 "UEFI QEMU HARDDISK QM00001 " from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x0,0xFFFF,0x0)"#,
            r#"Boot0006 "UEFI PXEv4 (MAC:525400123456)" from PciRoot(0x0)/Pci(0x2,0x0)/MAC(525400123456,0x1)"#,
            r#"Boot0007 "UEFI PXEv4 (MAC:525400123456) 2" from PciRoot(0x0)/Pci(0x2,0x0)/MAC(525400123456,0x1)/IPv4(0.0.0.0,0x0,DHCP,0.0.0.0,0.0.0.0,0.0.0.0)"#,
            r#"Boot0008 "UEFI PXEv6 (MAC:525400123456)" from PciRoot(0x0)/Pci(0x2,0x0)/MAC(525400123456,0x1)/IPv6(0000:0000:0000:0000:0000:0000:0000:0000,0x0,Static,0000:0000:0000:0000:0000:0000:0000:0000,0x40,0000:0000:0000:0000:0000:0000:0000:0000)"#,
        ]
    );
}

#[test]
fn variables_are_listed() {
    let store = sata();
    let variables = store.variables();
    assert_eq!(variables.len(), 31);
    let order = store
        .variable("BootOrder", Guid::EFI_GLOBAL_VARIABLE)
        .unwrap();
    assert_eq!(order.attributes, Attributes::DEFAULT);
    assert_eq!(order.data, [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
    assert_eq!(store.boot_order().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(store.boot_next().unwrap(), None);
    let certificates = variables.iter().find(|variable| variable.name == "certdb");
    assert!(certificates.unwrap().attributes.is_authenticated());
    assert!(order.authentication.unwrap().time_stamp.is_zero());
    assert_eq!(store.fault_tolerant_write(), FaultTolerantWrite::Idle);
    let usage = store.usage();
    assert_eq!(usage.total_bytes, 0x0003_ffb8 - 28);
    assert_eq!(usage.live_bytes + usage.deleted_bytes, 0x4290 - 0x64);
    assert_eq!(
        usage.live_bytes + usage.deleted_bytes + usage.free_bytes,
        usage.total_bytes
    );
}

#[test]
fn old_stores_are_read_and_edited() {
    let bytes = Template {
        variable_blocks: 1,
        is_authenticated: false,
    }
    .build();
    let mut store = VariableStore::open(bytes).unwrap();
    let vendor = Guid::EFI_GLOBAL_VARIABLE;
    let edit = store
        .set("Lang", vendor, Attributes::DEFAULT, b"eng")
        .unwrap();
    assert_eq!(
        edit.writes
            .iter()
            .map(|write| write.bytes.len())
            .sum::<usize>(),
        32 + 16 + 2
    );
    let store = VariableStore::open(store.into_bytes()).unwrap();
    let variable = store.variable("Lang", vendor).unwrap();
    assert_eq!(
        (variable.data, variable.authentication),
        (&b"eng"[..], None)
    );
}

/// AAVMF's flash is longer than its volume; the block map covers all of it.
#[test]
fn a_volume_may_be_a_part_of_the_flash() {
    let mut bytes = template(1);
    bytes[56..60].copy_from_slice(&1000_u32.to_le_bytes());
    diskfs_varstore::testing::seal(&mut bytes);
    bytes.resize(1000 * 4096, 0);
    let store = VariableStore::open(bytes).unwrap();
    assert_eq!(store.fault_tolerant_write(), FaultTolerantWrite::Idle);
    assert_eq!(store.into_bytes().len(), 1000 * 4096);
}

#[test]
fn what_is_no_store_is_reported() {
    let kind = |bytes: Vec<u8>| VariableStore::open(bytes).unwrap_err().kind();
    assert_eq!(kind(Vec::new()), ErrorKind::Unsupported);
    let erased = VariableStore::open(vec![0; 1 << 20]).unwrap_err();
    assert!(
        erased.to_string().contains("the firmware makes one"),
        "{erased}"
    );
    let with = |at: usize, byte: u8, seal: bool| {
        let mut bytes = template(1);
        bytes[at] = byte;
        if seal {
            diskfs_varstore::testing::seal(&mut bytes);
        }
        kind(bytes)
    };
    assert_eq!(with(16, 0, true), ErrorKind::Unsupported, "another volume");
    assert_eq!(
        with(45, 0, true),
        ErrorKind::Unsupported,
        "another polarity"
    );
    assert_eq!(with(50, 0, false), ErrorKind::Corrupt, "checksum");
    assert_eq!(with(56, 3, true), ErrorKind::Corrupt, "block map");
    assert_eq!(with(72, 0, true), ErrorKind::Unsupported, "another store");
    assert_eq!(with(92, 0, true), ErrorKind::Corrupt, "not formatted");
    assert_eq!(with(93, 0xff, true), ErrorKind::Corrupt, "not healthy");
    assert_eq!(with(91, 0x7f, true), ErrorKind::Corrupt, "too long");
}

#[test]
fn options_are_read_as_they_are_written() {
    let partition = HardDrive {
        partition_number: 1,
        start_lba: 0x800,
        size_lba: 0x40000,
        guid: "5f2a6ab8-0d4c-4a41-a1b4-0f0b2ab1c6b4".parse().unwrap(),
    };
    let mut option = LoadOption::file("Debian – ü", &partition, r"\EFI\debian\shimx64.efi");
    option.optional_data = vec![1, 2, 3];
    option.file_path_list.push(DevicePath::default());
    let bytes = option.to_bytes().unwrap();
    assert_eq!(LoadOption::parse(&bytes).unwrap(), option);
    assert_eq!(
        option.path().unwrap().to_string(),
        r"HD(1,GPT,5F2A6AB8-0D4C-4A41-A1B4-0F0B2AB1C6B4,0x800,0x40000)/\EFI\debian\shimx64.efi"
    );
    option.description.push('\0');
    assert_eq!(option.to_bytes().unwrap_err().kind(), ErrorKind::Invalid);
}

/// The text of paths is that of UEFI 10.6.
#[test]
fn paths_as_text() {
    let utf16 = |text: &str| {
        text.encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<_>>()
    };
    let guid = Guid::EFI_GLOBAL_VARIABLE.to_bytes();
    let with_guid = |rest: &[u8]| [&guid, rest].concat();
    let mut mbr = vec![2, 0, 0, 0];
    mbr.extend([0x3f_u64.to_le_bytes(), 0x1000_u64.to_le_bytes()].concat());
    mbr.extend([
        0xef, 0xbe, 0xad, 0xde, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1,
    ]);
    let disc = [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
    let uart = [0, 0, 0, 0, 0, 0xc2, 1, 0, 0, 0, 0, 0, 8, 1, 1];
    let mut ipv6 = vec![0; 56];
    (ipv6[0], ipv6[16], ipv6[36], ipv6[38], ipv6[39]) = (0xfe, 0x20, 6, 1, 64);
    let zeroes = "0000:0000:0000:0000:0000:0000:0000";
    for (node, text) in [
        (node(1, 1, &[2, 0x1f]), "Pci(0x1F,0x2)"),
        (
            node(1, 4, &with_guid(&[0xab])),
            "VenHw(8BE4DF61-93CA-11D2-AA0D-00E098032B8C,AB)",
        ),
        (
            node(2, 1, &[0xd0, 0x41, 0x08, 0x0a, 1, 0, 0, 0]),
            "PcieRoot(0x1)",
        ),
        (
            node(2, 1, &[0xd0, 0x41, 0x01, 0x05, 0, 0, 0, 0]),
            "Serial(0x0)",
        ),
        (
            node(2, 1, &[0xd0, 0x41, 0x34, 0x12, 2, 0, 0, 0]),
            "Acpi(PNP1234,0x2)",
        ),
        (node(2, 3, &[0, 1, 1, 0x80]), "AcpiAdr(0x80010100)"),
        (node(3, 1, &[1, 0, 0, 0]), "Ata(Secondary,Master,0x0)"),
        (node(3, 2, &[1, 0, 2, 0]), "Scsi(0x1,0x2)"),
        (node(3, 5, &[3, 0]), "USB(0x3,0x0)"),
        (
            node(3, 0x0a, &with_guid(&[])),
            "VenMsg(8BE4DF61-93CA-11D2-AA0D-00E098032B8C)",
        ),
        (node(3, 0x0e, &uart), "Uart(115200,8,N,1)"),
        (
            node(3, 0x0d, &ipv6),
            &format!(
                "IPv6(2000:{zeroes},TCP,StatelessAutoConfigure,FE00:{zeroes},0x40,0000:{zeroes})"
            ),
        ),
        (node(3, 0x18, b"http://a/b"), "Uri(http://a/b)"),
        (node(4, 1, &mbr), "HD(2,MBR,0xDEADBEEF,0x3F,0x1000)"),
        (node(4, 2, &disc), "CDROM(0x1,0x2,0x3)"),
        (node(4, 4, &utf16("\\a\\b.efi\0")), "\\a\\b.efi"),
        (node(4, 4, &utf16("not ended")), "not ended"),
        (node(5, 1, b"\x02\0\0\0disk\0"), "BBS(HD,disk,0x0)"),
        (node(9, 9, &[1, 0xff]), "Path(9,9,01FF)"),
        (node(3, 2, &[1]), "Path(3,2,01)"),
        (node(3, 2, &[]), "Path(3,2)"),
    ] {
        assert_eq!(path(&[node]).to_string(), format!("PciRoot(0x0)/{text}"));
    }
    let two = path(&[node(0x7f, 1, &[]), node(1, 1, &[0, 1])]);
    assert_eq!(two.to_string(), "PciRoot(0x0),Pci(0x1,0x0)");
}

#[test]
fn the_console_of_qemu_as_text() {
    let store = mixed();
    let console = store.variable("ConOut", Guid::EFI_GLOBAL_VARIABLE).unwrap();
    assert_eq!(
        DevicePath::parse(console.data).unwrap().to_string(),
        "PciRoot(0x0)/Pci(0x1F,0x0)/Serial(0x0)/Uart(115200,8,N,1)/VenPcAnsi()"
    );
}

#[test]
fn an_empty_store_is_empty() {
    let store = empty(1);
    assert!(store.variables().is_empty() && store.boot_entries().is_empty());
    assert!(store.boot_order().unwrap().is_empty());
    assert_eq!(store.usage().free_bytes, store.usage().total_bytes);
}
