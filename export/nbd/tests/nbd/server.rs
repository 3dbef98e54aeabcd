//! Our server, with the clients of others.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, Counting, File, Memory, Result};
use diskfs_fixtures::{have, pattern};
use diskfs_nbd::server::{BlockSizes, Export, MetaContext, Options, Status};
use serde_json::Value;

use crate::hand::{
    DF, EINVAL, EIO, ENOSPC, ENOTSUP, EPERM, FAST_ZERO, FLUSH, FUA, Hand, LONG_BYTES, NO_HOLE,
    READ, WRITE, WRITE_ZEROES,
};
use crate::rig::{DISK_BYTES, PANIC_AT, Served, Slow, attempt, program, sparse};

fn json(line: &str) -> Value {
    serde_json::from_str(&program(line)).unwrap()
}

/// A dirty bitmap: the second MiB is dirty.
#[derive(Debug)]
struct Bitmap;

impl MetaContext for Bitmap {
    fn name(&self) -> &'static str {
        "qemu:dirty-bitmap:b0"
    }

    fn status_at(&self, offset: u64) -> Result<Status> {
        let piece = 1 << 20;
        Ok(Status {
            len_bytes: piece - offset % piece,
            flags: u32::from(offset / piece == 1),
        })
    }
}

fn two_exports(path: &Path) -> Vec<Export> {
    let disk = sparse(path);
    let shared: Arc<dyn BlockWrite> = disk.clone();
    vec![
        Export::writable("disk", shared).description("a disk for tests"),
        Export::read_only("a copy", disk).context(Arc::new(Bitmap)),
    ]
}

#[test]
fn qemu_reads_and_maps_an_export() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    let served = Served::start(two_exports(&file), Options::default());
    let (uri, file) = (served.uri("disk"), file.display().to_string());
    let info = json(&format!("qemu-img info --output=json {uri}"));
    assert_eq!(info["virtual-size"], DISK_BYTES);
    program(&format!("qemu-img compare -f raw -F raw {uri} {file}"));
    let copy = directory.path().join("copy.qcow2");
    let copy = copy.display();
    program(&format!("qemu-img convert -f raw -O qcow2 {uri} {copy}"));
    program(&format!("qemu-img compare -F raw {copy} {file}"));
    let map = |source: &str| json(&format!("qemu-img map -f raw --output=json {source}"));
    let starts = |map: Value| -> Vec<_> {
        let runs = map.as_array().unwrap().iter();
        runs.map(|run| (run["start"].clone(), run["data"].clone()))
            .collect()
    };
    assert_eq!(starts(map(&uri)), starts(map(&file)));
    let socket = served.socket();
    let bitmap = format!(
        "driver=nbd,server.type=unix,server.path={},export=a copy,x-dirty-bitmap={}",
        socket.display(),
        Bitmap.name()
    );
    let words = ["map", "--output=json", "--image-opts", &bitmap];
    let dirty: Value =
        serde_json::from_str(&diskfs_fixtures::run("qemu-img", words).unwrap()).unwrap();
    // QEMU shows what is dirty as a hole.
    let dirty = dirty.as_array().unwrap();
    assert_eq!(dirty.len(), 3, "{dirty:?}");
    assert_eq!(
        (&dirty[1]["start"], &dirty[1]["data"]),
        (&(1 << 20).into(), &false.into())
    );
    served.server.stop().unwrap();
}

#[test]
fn qemu_writes_an_export() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    let served = Served::start(two_exports(&file), Options::default());
    let io = |export: &str, command: &str| {
        let uri = served.uri(export);
        diskfs_fixtures::run("qemu-io", ["-f", "raw", "-c", command, &uri])
    };
    io("disk", "write -P 7 0 128k").unwrap();
    io("disk", "write -f -P 8 512 1k").unwrap();
    io("disk", "write -z 1M 1M").unwrap();
    io("disk", "write -zu 2M 64k").unwrap();
    io("disk", "discard 15M 512k").unwrap();
    io("disk", "flush").unwrap();
    assert!(io("a%20copy", "write 0 4k").is_err());
    let bytes = fs::read(&file).unwrap();
    let mut model = vec![0; bytes.len()];
    model[..128 << 10].fill(7);
    model[512..1536].fill(8);
    let first = pattern("first", 2 << 20);
    model[(2 << 20) + (64 << 10)..3 << 20].copy_from_slice(&first[(1 << 20) + (64 << 10)..]);
    assert_eq!(bytes[..15 << 20], model[..15 << 20]);
    let uri = served.uri("disk");
    program(&format!(
        "qemu-img bench -f raw -w -c 500 -d 16 -s 4096 {uri}"
    ));
    program(&format!(
        "qemu-img bench -f raw -c 500 -d 16 -s 65536 {uri}"
    ));
    served.server.stop().unwrap();
}

#[test]
fn libnbd_lists_maps_and_copies() {
    if !have(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    let served = Served::start(two_exports(&file), Options::default());
    let list = json(&format!("nbdinfo --list --json {}", served.uri("")));
    let names: Vec<_> = list["exports"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0]["description"], "a disk for tests");
    let info = json(&format!("nbdinfo --json {}", served.uri("a%20copy")));
    let export = &info["exports"][0];
    assert_eq!(
        (&export["is_read_only"], &export["can_multi_conn"]),
        (&true.into(), &true.into())
    );
    let contexts = [Value::from("base:allocation"), Bitmap.name().into()];
    assert_eq!(export["contexts"].as_array().unwrap(), &contexts);
    let map = json(&format!("nbdinfo --map --json {}", served.uri("disk")));
    let run = |offset: u64, length: u64, kind: u32| serde_json::json!({"offset": offset, "length": length, "type": kind});
    let runs: Vec<_> = map
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            run(
                it["offset"].as_u64().unwrap(),
                it["length"].as_u64().unwrap(),
                it["type"].as_u64().unwrap().try_into().unwrap(),
            )
        })
        .collect();
    let tail = DISK_BYTES - (64 << 10);
    assert_eq!(
        runs,
        [
            run(0, 1 << 20, 3),
            run(1 << 20, 2 << 20, 0),
            run(3 << 20, tail - (3 << 20), 3),
            run(tail, 64 << 10, 0)
        ]
    );
    let copy = directory.path().join("copy.raw");
    program(&format!(
        "nbdcopy {} {}",
        served.uri("disk"),
        copy.display()
    ));
    assert!(fs::read(&copy).unwrap() == fs::read(&file).unwrap());
    let other = directory.path().join("other.raw");
    fs::write(
        &other,
        pattern("other", usize::try_from(DISK_BYTES).unwrap()),
    )
    .unwrap();
    program(&format!(
        "nbdcopy --flush {} {}",
        other.display(),
        served.uri("disk")
    ));
    assert!(fs::read(&other).unwrap() == fs::read(&file).unwrap());
    served.server.stop().unwrap();
}

#[test]
fn fio_verifies_what_it_writes() {
    if !have(&["fio"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let served = Served::device(sparse(&directory.path().join("disk.raw")));
    let uri = format!("--uri={}", served.uri(""));
    let words = "--name=t --ioengine=nbd --rw=randrw --bsrange=512-256k --size=16m --iodepth=16 \
                 --verify=crc32c --trim_percentage=10 --loops=2 --output-format=terse --verify_state_save=0";
    let words = words.split_whitespace().chain([&*uri]);
    diskfs_fixtures::run("fio", words).unwrap();
    served.server.stop().unwrap();
}

#[test]
fn holes_are_sent_without_reading_them() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(Counting::new(sparse(&directory.path().join("disk.raw"))));
    let served = Served::device(Arc::clone(&disk) as Arc<dyn BlockWrite>);
    let mut hand = Hand::structured(served.connect(), "");
    hand.send((READ, 0), 9, 0, 4 << 20);
    let mut kinds = Vec::new();
    loop {
        let chunk = hand.chunk();
        kinds.push(chunk.kind);
        if chunk.is_last {
            break;
        }
    }
    assert_eq!(kinds, [2, 1, 1, 2, 0]);
    assert_eq!(disk.counts().read_bytes, 2 << 20);
    // In one piece, if the client asks for it.
    hand.send((READ, DF), 10, 1 << 19, 1 << 20);
    let chunk = hand.chunk();
    assert_eq!(
        (chunk.is_last, chunk.kind, chunk.payload.len()),
        (true, 1, 8 + (1 << 20))
    );
    served.server.stop().unwrap();
}

#[test]
fn requests_are_answered_out_of_order_and_a_panic_is_an_error() {
    let slow = Slow {
        inner: Memory::new(vec![5; 4 << 20]),
        delay: Duration::from_secs(2),
    };
    let served = Served::device(Arc::new(slow));
    let mut hand = Hand::go(served.connect(), "");
    let begun = Instant::now();
    hand.send((READ, 0), 1, 0, LONG_BYTES);
    hand.send((READ, 0), 2, 1 << 20, 512);
    hand.send((READ, 0), 3, PANIC_AT, 512);
    let mut answers: Vec<_> = (0..2)
        .map(|_| {
            let (error, cookie) = hand.simple();
            let len = if error == 0 { 512 } else { 0 };
            assert_eq!(hand.data(len), vec![5; len]);
            (cookie, error)
        })
        .collect();
    answers.sort_unstable();
    assert_eq!(answers, [(2, 0), (3, EIO)]);
    assert!(begun.elapsed() < Duration::from_millis(1500));
    // The server completes the request before it stops.
    let stopping = std::thread::spawn(move || served.server.stop());
    assert_eq!(hand.simple(), (0, 1));
    assert!(hand.data(LONG_BYTES as usize).iter().all(|&byte| byte == 5));
    assert!(hand.is_closed());
    stopping.join().unwrap().unwrap();
}

#[test]
fn a_slow_device_delays_only_its_own_connections() {
    let slow = Slow {
        inner: Memory::new(vec![5; 4 << 20]),
        delay: Duration::from_secs(2),
    };
    let exports = vec![
        Export::writable("slow", Arc::new(slow)),
        Export::writable("quick", Arc::new(Memory::new(vec![6; 4 << 20]))),
    ];
    let served = Served::start(exports, Options::default());
    let mut slow = Hand::go(served.connect(), "slow");
    let mut quick = Hand::go(served.connect(), "quick");
    let begun = Instant::now();
    slow.send((READ, 0), 1, 0, 512);
    std::thread::sleep(Duration::from_millis(50));
    quick.send((READ, 0), 2, 0, 512);
    assert_eq!(quick.simple(), (0, 2));
    let mut third = Hand::go(served.connect(), "quick");
    third.send((READ, 0), 3, 0, 512);
    assert_eq!(third.simple(), (0, 3));
    assert!(begun.elapsed() < Duration::from_millis(1500));
    assert_eq!(slow.simple(), (0, 1));
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[test]
fn errors_have_their_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(two_exports(&directory.path().join("d")), Options::default());
    let mut hand = Hand::structured(served.connect(), "a copy");
    let mut error = |command, offset, len| {
        hand.send(command, 1, offset, len);
        if command.0 == WRITE {
            std::io::Write::write_all(&mut hand.0, &vec![0; len.try_into().unwrap()]).unwrap();
        }
        hand.chunk().error()
    };
    assert_eq!(error((WRITE, 0), 0, 512), EPERM);
    assert_eq!(error((WRITE_ZEROES, 0), 0, 512), EPERM);
    assert_eq!(error((READ, 0), DISK_BYTES - 1, 2), EINVAL);
    assert_eq!(error((READ, 0), u64::MAX, 2), EINVAL);
    assert_eq!(error((READ, NO_HOLE), 0, 512), EINVAL);
    assert_eq!(error((99, 0), 0, 0), EINVAL);
    assert_eq!(error((7, 0), 0, 512), EINVAL);
    let mut hand = Hand::structured(served.connect(), "disk");
    hand.send((WRITE_ZEROES, 0), 1, DISK_BYTES, 512);
    assert_eq!(hand.chunk().error(), ENOSPC);
    // Writing zeroes is surely fast where zeroes are, and nowhere else.
    hand.send((WRITE_ZEROES, FAST_ZERO), 2, 0, 1 << 20);
    assert_eq!(hand.simple(), (0, 2));
    hand.send((WRITE_ZEROES, FAST_ZERO), 3, 0, 2 << 20);
    assert_eq!(hand.chunk().error(), ENOTSUP);
    hand.send((WRITE_ZEROES, NO_HOLE | FUA), 4, 0, 1 << 20);
    assert_eq!(hand.simple(), (0, 4));
    hand.send((FLUSH, 0), 5, 0, 0);
    assert_eq!(hand.simple(), (0, 5));
    let file = File::open(directory.path().join("d")).unwrap();
    let provisioned = file.extent_at(0).unwrap();
    assert!(!provisioned.kind.reads_as_zeroes(), "{provisioned:?}");
    served.server.stop().unwrap();
}

#[test]
fn block_sizes_are_required_and_enforced() {
    let sizes = BlockSizes {
        minimum: 4096,
        preferred: 65536,
        maximum: 1 << 20,
    };
    let export = Export::writable("", Arc::new(Memory::new(vec![0; 1 << 20])));
    let served = Served::start(vec![export.block_sizes(sizes)], Options::default());
    let mut hand = Hand::greet(served.connect());
    let replies = hand.option(7, &[0, 0, 0, 0, 0, 0]);
    assert_eq!(replies.last().unwrap().0, (1 << 31) + 8);
    let mut hand = Hand::structured(served.connect(), "");
    hand.send((READ, 0), 1, 512, 4096);
    assert_eq!(hand.chunk().error(), EINVAL);
    hand.send((READ, 0), 1, 4096, 4096);
    assert_eq!(hand.chunk().payload.len(), 8 + 4096);
    if have(&["qemu-io"]) {
        program(&format!(
            "qemu-img compare -f raw -F raw {0} {0}",
            served.uri("")
        ));
        let read = [
            "-f",
            "raw",
            "-c",
            "write -P 9 100 600",
            "-c",
            "read -P 9 100 600",
        ];
        let io = diskfs_fixtures::run("qemu-io", read.into_iter().chain([&*served.uri("")]));
        io.unwrap();
    }
    let wrong = BlockSizes {
        minimum: 3,
        ..sizes
    };
    let export = Export::writable("", Arc::new(Memory::new(vec![0; 512]))).block_sizes(wrong);
    assert!(diskfs_nbd::server::Server::start(vec![export], Options::default()).is_err());
    served.server.stop().unwrap();
}

#[test]
fn tcp_works_and_an_unknown_export_is_refused() {
    if !have(&["qemu-img"]) {
        return;
    }
    let served = Served::device(Arc::new(Memory::new(vec![1; 1 << 20])));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    served.server.listen(listener).unwrap();
    let info = json(&format!(
        "qemu-img info --output=json nbd://127.0.0.1:{port}"
    ));
    assert_eq!(info["virtual-size"], 1 << 20);
    let refused = attempt(&format!("qemu-img info nbd://127.0.0.1:{port}/other"));
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("not available") || refused.contains("unknown export"),
        "{refused}"
    );
    served.server.stop().unwrap();
}
