//! hotplug: disks of a real QEMU that runs no guest, and monitors that are none.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::have;
use serde_json::{Value, json};

use crate::{DISKFS, diskfs_in};

/// A QEMU without a guest, which is killed at the end.
struct Machine {
    process: Child,
    scene: tempfile::TempDir,
}

impl Machine {
    fn start(more: &[&str]) -> Self {
        let scene = tempfile::tempdir().unwrap();
        let process = Command::new("qemu-system-x86_64")
            .args([
                "-accel",
                "tcg",
                "-nodefaults",
                "-display",
                "none",
                "-machine",
                "q35",
                "-m",
                "64",
            ])
            .args(["-device", "virtio-scsi-pci,id=scsi0"])
            .args(["-device", "pcie-root-port,id=port0,chassis=1"])
            .args(["-qmp", "unix:qmp.sock,server=on,wait=off"])
            .args(more)
            .current_dir(scene.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let machine = Self { process, scene };
        wait_for(|| machine.at().join("qmp.sock").exists());
        machine
    }

    fn at(&self) -> &Path {
        self.scene.path()
    }

    /// Executes one command of QEMU's monitor.
    fn qmp(&self, command: &str) -> Value {
        let stream = UnixStream::connect(self.at().join("qmp.sock")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.next().unwrap().unwrap();
        let mut answer = Value::Null;
        for command in ["qmp_capabilities", command] {
            let line = json!({ "execute": command });
            (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
            answer = loop {
                let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                if line.get("return").is_some() {
                    break line["return"].clone();
                }
            };
        }
        answer
    }

    /// Starts `hotplug add`, and waits until the disk is attached.
    fn add(&self, words: &[&str]) -> Child {
        let mut process = Command::new(DISKFS)
            .args(["hotplug", "add", "--qmp", "qmp.sock"])
            .args(words)
            .current_dir(self.at())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("attached"), "{line}");
        process.stderr = Some(stderr.into_inner());
        process
    }

    fn list(&self) -> Value {
        let words = ["hotplug", "list", "--json", "--qmp", "qmp.sock"];
        let document: Value = serde_json::from_str(&diskfs_in(self.at(), &words).text()).unwrap();
        document["disks"].clone()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_for(mut is_there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !is_there() {
        assert!(Instant::now() < end, "it took more than a minute");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ended(process: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_for(|| {
        status = process.try_wait().unwrap();
        status.is_some()
    });
    status.and_then(|status| status.code())
}

fn terminate(process: &Child) {
    let pid = rustix::process::Pid::from_child(process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[test]
fn a_scsi_disk_comes_and_goes() {
    if !have(&["qemu-system-x86_64"]) {
        return;
    }
    let machine = Machine::start(&["-S"]);
    let at = machine.at();
    diskfs_in(at, &["create", "data.qcow2", "64M"]).bytes();
    assert_eq!(machine.list(), json!([]));
    let dry = [
        "hotplug",
        "add",
        "data.qcow2",
        "--qmp",
        "qmp.sock",
        "--id",
        "data",
        "--dry-run",
    ];
    let dry = diskfs_in(at, &dry).text();
    assert!(dry.contains("device_add {\"bus\":\"scsi0.0\""), "{dry}");
    assert_eq!(machine.list(), json!([]));

    let mut add = machine.add(&["data.qcow2", "--id", "data", "--cache", "writethrough"]);
    let blocks = machine.qmp("query-block");
    let block = &blocks[0];
    assert_eq!(block["qdev"], "data", "{blocks}");
    assert_eq!(block["inserted"]["image"]["virtual-size"], 64 << 20);
    assert_eq!(block["inserted"]["drv"], "nbd");
    assert_eq!(block["inserted"]["cache"]["writeback"], false, "{blocks}");
    let disks = machine.list();
    assert_eq!(disks[0]["name"], "data");
    assert_eq!(disks[0]["phase"], "Ready");
    assert_eq!(disks[0]["driver"], "scsi-hd");
    assert_eq!(disks[0]["size_bytes"], 64 << 20);
    // A name is used once.
    let twice = [
        "hotplug",
        "add",
        "data.qcow2",
        "--qmp",
        "qmp.sock",
        "--id",
        "data",
    ];
    let (_, stderr) = diskfs_in(at, &twice).failure();
    assert!(stderr.contains("has a device `data` already"), "{stderr}");

    diskfs_in(at, &["hotplug", "remove", "data", "--qmp", "qmp.sock"]).bytes();
    assert_eq!(ended(&mut add), Some(0));
    assert_eq!(machine.qmp("query-block"), json!([]));
    assert_eq!(machine.qmp("query-named-block-nodes"), json!([]));
    let remove = diskfs_in(at, &["hotplug", "remove", "data", "--qmp", "qmp.sock"]);
    assert_eq!(remove.code(), Some(3));
    // Devices of others stay.
    let (_, stderr) = diskfs_in(at, &["hotplug", "remove", "scsi0", "--qmp", "qmp.sock"]).failure();
    assert!(stderr.contains("was not attached by diskfs"), "{stderr}");
}

#[test]
fn a_signal_removes_the_disk() {
    if !have(&["qemu-system-x86_64"]) {
        return;
    }
    let mut machine = Machine::start(&["-S"]);
    diskfs_in(machine.at(), &["create", "data.qcow2", "64M"]).bytes();
    let mut add = machine.add(&[
        "data.qcow2",
        "--id",
        "data",
        "--read-only",
        "--serial",
        "S1",
    ]);
    let blocks = machine.qmp("query-block");
    assert_eq!(blocks[0]["inserted"]["ro"], true, "{blocks}");
    terminate(&add);
    assert_eq!(ended(&mut add), Some(0));
    assert_eq!(machine.qmp("query-named-block-nodes"), json!([]));
    // The end of QEMU ends it, too.
    let mut add = machine.add(&["data.qcow2", "--id", "data"]);
    machine.process.kill().unwrap();
    assert_eq!(ended(&mut add), Some(0));
}

#[test]
fn a_virtio_disk_needs_a_port_and_a_guest() {
    if !have(&["qemu-system-x86_64"]) {
        return;
    }
    let machine = Machine::start(&["-S"]);
    let at = machine.at();
    diskfs_in(at, &["create", "data.qcow2", "64M"]).bytes();
    diskfs_in(at, &["create", "more.qcow2", "64M"]).bytes();
    let mut add = machine.add(&["data.qcow2", "--id", "data", "--bus", "virtio"]);
    let blocks = machine.qmp("query-block").to_string();
    assert!(blocks.contains("/machine/peripheral/data/"), "{blocks}");
    assert_eq!(machine.list()[0]["driver"], "virtio-blk-pci");
    let more = [
        "hotplug",
        "add",
        "more.qcow2",
        "--qmp",
        "qmp.sock",
        "--id",
        "more",
        "--bus",
        "virtio",
    ];
    let (_, stderr) = diskfs_in(at, &more).failure();
    assert!(stderr.contains("no free PCI Express root port"), "{stderr}");
    // Nobody releases the disk.
    let remove = [
        "hotplug",
        "remove",
        "data",
        "--qmp",
        "qmp.sock",
        "--timeout",
        "1",
    ];
    let (code, stderr) = diskfs_in(at, &remove).failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(
        stderr.contains("does not run (status prelaunch)"),
        "{stderr}"
    );
    assert_eq!(machine.list()[0]["phase"], "Ready");
    machine.qmp("cont");
    let (_, stderr) = diskfs_in(at, &remove).failure();
    assert!(stderr.contains("the guest does not answer"), "{stderr}");
    // A reset completes the removal: the guest starts without the disk.
    machine.qmp("system_reset");
    wait_for(|| machine.list() == json!([]) || machine.list()[0]["phase"] == "AttachedToNode");
    diskfs_in(at, &["hotplug", "remove", "data", "--qmp", "qmp.sock"]).bytes();
    assert_eq!(ended(&mut add), Some(0));
}

/// Answers every connection by a function.
fn serve(path: &Path, answer: impl Fn(UnixStream) + Send + 'static) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap());
        }
    });
}

#[test]
fn other_peers_are_refused_in_time() {
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    let list = |name: &str| {
        let begun = Instant::now();
        let failure = diskfs_in(at, &["hotplug", "list", "--qmp", name]).failure();
        assert!(begun.elapsed() < Duration::from_secs(40), "{name}");
        failure.1
    };
    let greeting = b"{\"QMP\": {}}\n";
    serve(&at.join("text"), |mut stream| {
        let _ = stream.write_all(b"hello\n");
    });
    assert!(list("text").contains("it does not send JSON"));
    serve(&at.join("json"), |mut stream| {
        let _ = stream.write_all(b"[1]\n");
    });
    assert!(list("json").contains("it does not greet like QMP"));
    serve(&at.join("deep"), |mut stream| {
        let _ = stream.write_all(&b"[".repeat(100_000));
        let _ = stream.write_all(b"\n");
    });
    assert!(list("deep").contains("it does not send JSON"));
    serve(&at.join("closed"), drop);
    assert!(list("closed").contains("closed the connection"));
    serve(&at.join("endless"), move |mut stream| {
        let _ = stream.write_all(greeting);
        while stream.write_all(&[b' '; 4096]).is_ok() {}
    });
    assert!(list("endless").contains("a line is longer than 8 MiB"));
    // Events only: the answer has a deadline.
    serve(&at.join("events"), move |mut stream| {
        let _ = stream.write_all(greeting);
        let event = b"{\"event\": \"RESET\", \"data\": {\"device\": \"a\"}}\n";
        while stream.write_all(event).is_ok() {}
    });
    assert!(list("events").contains("within 10 seconds"));
    serve(&at.join("silent"), |mut stream| {
        let _ = stream.read(&mut [0; 16]);
    });
    assert!(list("silent").contains("one client at a time"));
    // Answers without their fields.
    serve(&at.join("empty"), move |mut stream| {
        let _ = stream.write_all(greeting);
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(_)) = lines.next() {
            let _ = stream
                .write_all(b"{\"return\": [{\"node-name\": \"diskfs-\\u001b[2J\"}, 7, null]}\n");
        }
    });
    let text = diskfs_in(at, &["hotplug", "list", "--qmp", "empty"]).text();
    assert!(
        text.starts_with("diskfs-\\u{1b}[2J: AttachedToNode"),
        "{text}"
    );
    fs::write(at.join("file"), "").unwrap();
    let (_, stderr) = diskfs_in(at, &["hotplug", "list", "--qmp", "file"]).failure();
    assert!(stderr.contains("file"), "{stderr}");
    let gone = diskfs_in(at, &["hotplug", "list", "--qmp", "gone"]);
    assert_eq!(gone.code(), Some(3));
}
