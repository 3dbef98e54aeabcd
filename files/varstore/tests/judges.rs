//! Tests against virt-firmware: both programs read the same from a store, and each reads and edits
//! what the other wrote.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{mixed, pc, sata};
use diskfs_fixtures::{require, skip};
use diskfs_varstore::{
    Attributes, BootDevice, BootPosition, DeviceKind, DeviceLocation, FaultTolerantWrite, Guid,
    HardDrive, LoadOption, VariableStore,
};
use serde_json::Value;

const VENDOR: Guid = Guid::EFI_GLOBAL_VARIABLE;

/// By name: vendor, attributes, data, and the time of the signature.
type Listing = BTreeMap<String, (String, u64, String, Option<String>)>;

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn ours(store: &VariableStore) -> Listing {
    let variables = store.variables().into_iter().map(|variable| {
        let time = variable.authentication.unwrap().time_stamp;
        let time = (!time.is_zero()).then(|| hex(&time.to_bytes()));
        let (vendor, attributes) = (variable.vendor.to_string(), variable.attributes.0.into());
        (
            variable.name,
            (vendor, attributes, hex(variable.data), time),
        )
    });
    variables.collect()
}

fn virt_fw_vars(words: &[&str]) -> String {
    let output = Command::new("virt-fw-vars").args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn theirs(file: &Path) -> Listing {
    let json = tempfile::NamedTempFile::new().unwrap();
    let (file, path) = (file.to_str().unwrap(), json.path().to_str().unwrap());
    virt_fw_vars(&["-i", file, "--output-json", path]);
    let value: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let variables = value["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| {
            let name = text(&variable["name"]).unwrap();
            let of_name = (
                text(&variable["guid"]).unwrap(),
                variable["attr"].as_u64().unwrap(),
                text(&variable["data"]).unwrap(),
                text(&variable["time"]),
            );
            (name, of_name)
        });
    variables.collect()
}

fn written(store: &VariableStore) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, store.bytes()).unwrap();
    file
}

fn read(file: &Path) -> VariableStore {
    VariableStore::open(std::fs::read(file).unwrap()).unwrap()
}

/// Reads the templates of the packages, including those with keys.
#[test]
fn templates_are_read_as_virt_firmware_does() {
    if require("virt-fw-vars").is_none() {
        return;
    }
    let names = [
        "OVMF_VARS.fd",
        "OVMF_VARS.ms.fd",
        "OVMF_VARS_4M.fd",
        "OVMF_VARS_4M.ms.fd",
        "OVMF_VARS_4M.snakeoil.fd",
    ];
    let ovmf = names
        .iter()
        .map(|name| Path::new("/usr/share/OVMF").join(name));
    let aavmf = ["AAVMF_VARS.ms.fd", "AAVMF_VARS.snakeoil.fd"];
    let aavmf = aavmf
        .iter()
        .map(|name| Path::new("/usr/share/AAVMF").join(name));
    let mut read_files = 0;
    for file in ovmf.chain(aavmf).filter(|file| file.exists()) {
        let store = read(&file);
        assert_eq!(store.fault_tolerant_write(), FaultTolerantWrite::Idle);
        let ours = ours(&store);
        assert_eq!(ours, theirs(&file), "{file:?}");
        let has_keys = file.to_str().unwrap().contains("VARS_4M.ms");
        assert!(!has_keys || (ours.contains_key("PK") && ours.contains_key("dbx")));
        read_files += 1;
    }
    if read_files == 0 {
        skip("the templates of OVMF are not installed");
    }
}

#[test]
fn what_the_firmware_wrote_is_read_as_virt_firmware_does() {
    if require("virt-fw-vars").is_none() {
        return;
    }
    for store in [sata(), mixed(), pc()] {
        let listing = ours(&store);
        assert!(listing.len() > 25);
        assert_eq!(listing, theirs(written(&store).path()));
    }
}

fn partition() -> HardDrive {
    HardDrive {
        partition_number: 1,
        start_lba: 2048,
        size_lba: 262_144,
        guid: "5f2a6ab8-0d4c-4a41-a1b4-0f0b2ab1c6b4".parse().unwrap(),
    }
}

/// Both programs edit a store in turn, and each reclaims it.
#[test]
fn both_edit_one_store() {
    if require("virt-fw-vars").is_none() {
        return;
    }
    let mut store = sata();
    let debian = LoadOption::file("debian", &partition(), r"\EFI\debian\shimx64.efi");
    store.add_boot_entry(&debian, BootPosition::First).unwrap();
    store.set_boot_next(Some(4)).unwrap();
    for number in 0..300_u16 {
        let data = number.to_le_bytes().repeat(500);
        store
            .set("Lang", VENDOR, Attributes::DEFAULT, &data)
            .unwrap();
    }
    let disk = BootDevice {
        order: 0,
        kind: DeviceKind::Sata,
        place: DeviceLocation::Attached(1),
    };
    let order = store.boot_order_for(&[disk]).unwrap().order;
    store.set_boot_order(&order).unwrap();
    store
        .delete(
            "Attempt 1",
            store
                .variables()
                .iter()
                .find(|found| found.name == "Attempt 1")
                .unwrap()
                .vendor,
        )
        .unwrap();
    let file = written(&store);
    let path = file.path().to_str().unwrap();
    assert_eq!(ours(&store), theirs(file.path()));
    let text = virt_fw_vars(&["-i", path, "-p"]);
    for line in [
        r#"boot entry: title="debian" devpath=Partition(nr=1)/FilePath(\EFI\debian\shimx64.efi)"#,
        "boot order: 0005, 0007, 0000, 0001, 0002, 0003, 0004, 0006",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // The other program edits it.
    virt_fw_vars(&[
        "--inplace",
        path,
        "--append-boot-filepath",
        r"\EFI\BOOT\BOOTX64.EFI",
        "-d",
        "Lang",
    ]);
    let mut store = read(file.path());
    assert_eq!(ours(&store), theirs(file.path()));
    assert!(store.variable("Lang", VENDOR).is_none());
    let mut order = store.boot_order().unwrap();
    assert_eq!(order, [5, 7, 0, 1, 2, 3, 4, 6, 8]);
    let added = store.boot_entries().pop().unwrap().option.unwrap();
    assert_eq!(added.path().unwrap().to_string(), r"\EFI\BOOT\BOOTX64.EFI");
    order.reverse();
    store.set_boot_order(&order).unwrap();
    let file = written(&store);
    assert_eq!(ours(&store), theirs(file.path()));
    assert_eq!(
        theirs(file.path())["BootOrder"].2,
        "080006000400030002000100000007000500"
    );
}

/// Keys that virt-firmware enrolls are kept, with the times of their signatures, also when the
/// store is reclaimed.
#[test]
fn keys_are_kept() {
    if require("virt-fw-vars").is_none() {
        return;
    }
    let file = written(&sata());
    let path = file.path().to_str().unwrap();
    virt_fw_vars(&["--inplace", path, "--enroll-redhat", "--secure-boot"]);
    let mut store = read(file.path());
    let mut before = ours(&store);
    assert_eq!(before, theirs(file.path()));
    assert!(before["KEK"].3.is_some());
    let mut reclaimed = false;
    for number in 0..300_u16 {
        let data = number.to_le_bytes().repeat(500);
        reclaimed |= store
            .set("Lang", VENDOR, Attributes::DEFAULT, &data)
            .unwrap()
            .reclaimed;
    }
    assert!(reclaimed);
    let file = written(&store);
    let mut after = theirs(file.path());
    assert_eq!(after, ours(&store));
    assert!(before.remove("Lang").is_some() && after.remove("Lang").is_some());
    assert_eq!(before, after);
}
