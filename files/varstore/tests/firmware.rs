//! Tests with OVMF in QEMU: what it writes is read here, and it boots according to what is written
//! here. This needs two starts of the machine, without KVM.

mod common;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use diskfs_fixtures::{require, skip};
use diskfs_varstore::{
    Attributes, BootDevice, BootPosition, DeviceKind, DeviceLocation, FaultTolerantWrite, Guid,
    HardDrive, LoadOption, VariableStore,
};

const CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
const VARS: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// The offset of the queue of fault tolerant writes in such a file, after the header of its block.
const WRITE_QUEUE: usize = 0x41020;

/// The time limit, longer than even the slowest machine takes.
const PATIENCE: Duration = Duration::from_mins(3);

/// The QEMU process, which is killed when dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Disks(tempfile::TempDir);

impl Disks {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["ide", "ide2", "virtio", "scsi"] {
            File::create(directory.path().join(name))
                .unwrap()
                .set_len(1 << 20)
                .unwrap();
        }
        std::fs::copy(VARS, directory.path().join("vars")).unwrap();
        Self(directory)
    }

    fn vars(&self) -> PathBuf {
        self.0.path().join("vars")
    }

    fn drive(&self, name: &str, options: &str) -> [String; 2] {
        let file = self.0.path().join(name);
        [
            "-drive".into(),
            format!("format=raw,file={},{options}", file.display()),
        ]
    }

    /// Starts the machine, and stops it when it has printed `until`. Returns its output and the
    /// boot entries that it tried.
    fn boot(&self, until: &str) -> (String, Vec<(u16, String)>) {
        let mut command = Command::new("qemu-system-x86_64");
        let fixed =
            "-accel tcg -machine q35 -m 256 -nodefaults -display none -serial stdio -net none";
        command.args(fixed.split(' '));
        command.args([
            "-drive",
            &format!("if=pflash,format=raw,readonly=on,file={CODE}"),
        ]);
        command.args(self.drive("vars", "if=pflash"));
        for name in ["ide", "ide2", "virtio", "scsi"] {
            command.args(self.drive(name, &format!("if=none,id={name}")));
        }
        let devices = [
            "ide-hd,drive=ide,bus=ide.0",
            "ide-hd,drive=ide2,bus=ide.1",
            "virtio-blk-pci,drive=virtio,addr=5",
            "virtio-scsi-pci,id=s,addr=6",
            "scsi-hd,drive=scsi,bus=s.0,scsi-id=0,lun=0",
        ];
        command.args(devices.iter().flat_map(|device| ["-device", device]));
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut machine = Machine(command.spawn().unwrap());
        let said = read_until(machine.0.stdout.take().unwrap(), until);
        (said.clone(), tried(&said))
    }
}

fn read_until(mut output: impl Read + Send + 'static, until: &str) -> String {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = output.read(&mut bytes) {
            if sender.send(bytes[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    received(&receiver, until)
}

fn received(receiver: &Receiver<Vec<u8>>, until: &str) -> String {
    let (began, mut said) = (Instant::now(), String::new());
    while !said.contains(until) {
        let rest = PATIENCE.saturating_sub(began.elapsed());
        match receiver.recv_timeout(rest) {
            Ok(bytes) => said.push_str(&String::from_utf8_lossy(&bytes)),
            Err(error) => panic!("{error} after {:?}: {said}", began.elapsed()),
        }
    }
    said
}

/// Returns the entries that the boot manager tried, with the text that it printed for each.
fn tried(said: &str) -> Vec<(u16, String)> {
    let lines = said.split("BdsDxe: ").filter_map(|line| {
        let line = line
            .strip_prefix("failed to load Boot")
            .or(line.strip_prefix("loading Boot"))?;
        let line = line.lines().next()?.trim_end_matches(": Not Found");
        let (number, rest) = line.split_at_checked(4)?;
        Some((
            u16::from_str_radix(number, 16).ok()?,
            rest.trim().to_owned(),
        ))
    });
    lines.collect()
}

fn read(file: &Path) -> VariableStore {
    VariableStore::open(std::fs::read(file).unwrap()).unwrap()
}

/// Formats an entry as the boot manager does.
fn line(option: &LoadOption) -> String {
    format!("\"{}\" from {}", option.description, option.path().unwrap())
}

/// The line for the last entry that is tried: the built-in shell.
const SHELL: &str = "starting Boot";

fn require_firmware() -> Option<()> {
    require("qemu-system-x86_64")?;
    if Path::new(CODE).exists() {
        return Some(());
    }
    skip("OVMF is not installed");
    None
}

/// The firmware completes its interrupted write, as the error for an edit recommends.
#[test]
fn the_firmware_settles_what_it_began() {
    if require_firmware().is_none() {
        return;
    }
    let store = common::interrupted();
    assert_eq!(
        store.fault_tolerant_write(),
        FaultTolerantWrite::Interrupted
    );
    let disks = Disks::new();
    std::fs::write(disks.vars(), store.bytes()).unwrap();
    disks.boot(SHELL);
    let mut after = read(&disks.vars());
    assert_eq!(after.fault_tolerant_write(), FaultTolerantWrite::Idle);
    let filler = store.variable("Filler", Guid::EFI_GLOBAL_VARIABLE);
    assert!(filler.is_some() && filler == after.variable("Filler", Guid::EFI_GLOBAL_VARIABLE));
    let order = after.boot_order().unwrap();
    after.set_boot_order(&order[1..]).unwrap();
}

#[test]
fn the_firmware_boots_in_the_order_that_is_set() {
    if require_firmware().is_none() {
        return;
    }
    let disks = Disks::new();
    let (_, first) = disks.boot(SHELL);
    let mut store = read(&disks.vars());
    let entries = store.boot_entries();
    for (number, said) in &first {
        let entry = entries
            .iter()
            .find(|entry| entry.number == *number)
            .unwrap();
        assert_eq!(line(entry.option.as_ref().unwrap()), *said);
    }
    assert!(first.len() >= 5, "{first:?}");
    let kinds = [
        DeviceKind::Scsi,
        DeviceKind::Pci,
        DeviceKind::Sata,
        DeviceKind::Sata,
    ];
    let devices = kinds.into_iter().zip([(1, 0), (2, 0), (3, 1), (4, 0)]);
    let devices: Vec<BootDevice> = devices
        .map(|(kind, (order, before))| BootDevice {
            order,
            kind,
            place: DeviceLocation::Attached(before),
        })
        .collect();
    let matched = store.boot_order_for(&devices).unwrap();
    assert!(matched.missing.is_empty());
    let before: Vec<u16> = first.iter().map(|(number, _)| *number).collect();
    assert_ne!(matched.order[..4], before[..4]);
    store.set_boot_order(&matched.order).unwrap();
    let partition = HardDrive {
        partition_number: 1,
        start_lba: 2048,
        size_lba: 4096,
        guid: "5f2a6ab8-0d4c-4a41-a1b4-0f0b2ab1c6b4".parse().unwrap(),
    };
    let debian = LoadOption::file("debian", &partition, r"\EFI\debian\shimx64.efi");
    let (number, _) = store.add_boot_entry(&debian, BootPosition::First).unwrap();
    let reclaimed = fill(&mut store);
    assert!(reclaimed);
    std::fs::write(disks.vars(), store.bytes()).unwrap();
    let (said, second) = disks.boot(SHELL);
    let mut expected = vec![(number, line(&debian))];
    for number in &matched.order {
        expected.extend(first.iter().find(|(tried, _)| tried == number).cloned());
    }
    assert_eq!(second, expected, "{said}");
    let after = read(&disks.vars());
    let filler = after.variable("Filler", Guid::EFI_GLOBAL_VARIABLE).unwrap();
    assert_eq!(filler.data, [7; 5000]);
    assert_eq!(after.boot_order().unwrap()[1..], matched.order);
    // The firmware has reclaimed the store, too: through the spare block, and completely.
    assert!(after.usage().free_bytes > 100_000, "{:?}", after.usage());
    assert_eq!(after.bytes()[WRITE_QUEUE], 0xf8);
    assert_eq!(after.fault_tolerant_write(), FaultTolerantWrite::Idle);
}

/// Sets variables until the store has been reclaimed and is nearly full again.
fn fill(store: &mut VariableStore) -> bool {
    let mut set = |name: &str, data: &[u8]| {
        let edit = store.set(name, Guid::EFI_GLOBAL_VARIABLE, Attributes::DEFAULT, data);
        (edit.unwrap().reclaimed, store.usage().free_bytes)
    };
    let mut reclaimed = false;
    for byte in (0..8).cycle() {
        let (now, free_bytes) = set("Filler", &[byte; 5000]);
        reclaimed |= now;
        if reclaimed && byte == 7 && free_bytes < 50_000 {
            break;
        }
    }
    for number in 0_u32.. {
        if set("Small", &number.to_le_bytes()).1 < 200 {
            return reclaimed;
        }
    }
    unreachable!()
}
