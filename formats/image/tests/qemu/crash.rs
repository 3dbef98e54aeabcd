//! Power cuts at every moment of a run of writes: flushed data is present, and no cluster is
//! allocated twice.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{CrashState, Faulty, Memory, WriteLog};
use diskfs_image::{Format, Image, OpenOptions, WritableImage};

use crate::case::Case;
use crate::model::{Model, Step, is_sound};
use crate::tools::{Random, converted, have_qemu, number, try_run};

/// The largest length of the image file.
const FILE_BYTES: usize = 4 << 20;

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    }
}

/// The contents of the disk at one moment: after that number of events of the log.
struct Moment {
    events: usize,
    bytes: Vec<u8>,
    is_flushed: bool,
}

/// A run of writes, with the images that crashes can leave.
struct Run {
    before: Vec<u8>,
    log: WriteLog,
    moments: Vec<Moment>,
}

impl Run {
    fn record(image: &[u8], bytes: Vec<u8>, case: &Case, steps: u64) -> Self {
        let device = Arc::new(Faulty::new(Arc::new(Memory::new(image)), []));
        let writable = WritableImage::from_device(device.clone(), &options()).unwrap();
        let disk = writable.device();
        let mut model = Model::new(bytes, true);
        let mut r = Random::new(case.seed ^ 0x55);
        let mut moments = vec![Moment {
            events: 0,
            bytes: model.bytes.clone(),
            is_flushed: true,
        }];
        for _ in 0..steps {
            let step = match r.below(6) {
                0 => Step::Flush,
                _ => Step::random(model.bytes.len() as u64, case.cluster_size, &mut r),
            };
            model.step(step, disk.as_ref());
            moments.push(Moment {
                events: device.log().events().len(),
                bytes: model.bytes.clone(),
                is_flushed: step == Step::Flush,
            });
        }
        drop(disk);
        writable.close().unwrap();
        let mut before = image.to_vec();
        before.resize(FILE_BYTES, 0);
        Self {
            before,
            log: device.log(),
            moments,
        }
    }

    /// Returns the image after a crash.
    fn image_after(&self, state: &CrashState<'_>) -> Arc<Memory> {
        let image = Arc::new(Memory::new(self.before.as_slice()));
        state.replay(image.as_ref()).unwrap();
        image
    }

    /// Returns the allowed contents of the disk after a power cut at this event: those at the last
    /// flush, and those at each moment since then until the step in progress ended.
    fn allowed(&self, events: usize) -> &[Moment] {
        let last_flush = self
            .moments
            .iter()
            .rposition(|moment| moment.is_flushed && moment.events <= events)
            .unwrap_or(0);
        let under_way = self
            .moments
            .iter()
            .position(|moment| moment.events > events)
            .unwrap_or(self.moments.len() - 1);
        &self.moments[last_flush..=under_way.max(last_flush)]
    }
}

/// Checks that every byte has the value of an allowed moment.
fn check_bytes(image: &Arc<Memory>, allowed: &[Moment]) {
    let opened = Image::from_device(image.clone(), &options()).unwrap();
    let mut bytes = vec![0x5a; allowed[0].bytes.len()];
    opened.device().read_at(0, &mut bytes).unwrap();
    for (sector, now) in bytes.chunks(512).enumerate() {
        let at = sector * 512;
        let is_one = |moment: &Moment| &moment.bytes[at..at + now.len()] == now;
        if allowed.iter().any(is_one) {
            continue;
        }
        // Steps that are not aligned to sectors are compared byte by byte.
        for (index, byte) in now.iter().enumerate() {
            let was = |moment: &Moment| moment.bytes[at + index] == *byte;
            assert!(
                allowed.iter().any(was),
                "byte {} is {byte:#x}, and was never",
                at + index
            );
        }
    }
}

/// Checks that the image can be written after the crash, and stays consistent.
fn check_writing(image: &Arc<Memory>, case: &Case, seed: u64) {
    let report = Image::from_device(image.clone(), &options())
        .unwrap()
        .check()
        .unwrap()
        .unwrap();
    assert_eq!(report.corruptions, 0, "after the crash: {report:?}");
    let writable = WritableImage::from_device(image.clone(), &options()).unwrap();
    let disk = writable.device();
    let mut bytes = vec![0; usize::try_from(disk.size_bytes()).unwrap()];
    disk.read_at(0, &mut bytes).unwrap();
    let mut model = Model::new(bytes, true);
    let mut r = Random::new(seed);
    for _ in 0..6 {
        let step = Step::random(disk.size_bytes(), case.cluster_size, &mut r);
        model.step(step, disk.as_ref());
    }
    drop(disk);
    writable.close().unwrap();
    let opened = Image::from_device(image.clone(), &options()).unwrap();
    let report = opened.check().unwrap().unwrap();
    assert_eq!(report.corruptions, 0, "after more writes: {report:?}");
    let mut after = vec![0; model.bytes.len()];
    opened.device().read_at(0, &mut after).unwrap();
    model.compare(0, &after);
}

fn check_snapshots(dir: &Path, image: &Memory, expected: &[Option<Vec<u8>>]) {
    let path = dir.join("crashed.qcow2");
    std::fs::write(&path, image.to_vec()).unwrap();
    is_sound(dir, "crashed.qcow2");
    for (index, expected) in expected.iter().enumerate() {
        let name = format!("snapshot.name=snap{index}");
        assert_eq!(&converted(dir, "crashed.qcow2", &["-l", &name]), expected);
    }
}

fn crash_everywhere(case: &Case, steps: u64) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    case.make(dir);
    if !try_run(dir, "qemu-img", &["check", "disk.qcow2"])
        .status
        .success()
    {
        return;
    }
    let image = std::fs::read(dir.join("disk.qcow2")).unwrap();
    let bytes = converted(dir, "disk.qcow2", &[]).unwrap();
    let snapshots: Vec<_> = (0..case.snapshots)
        .map(|i| {
            converted(
                dir,
                "disk.qcow2",
                &["-l", &format!("snapshot.name=snap{i}")],
            )
        })
        .collect();
    let run = Run::record(&image, bytes, case, steps);
    for (number, state) in (case.seed * 1_000_003..).zip(run.log.states(case.seed)) {
        let result = std::panic::catch_unwind(|| {
            let image = run.image_after(&state);
            check_bytes(&image, run.allowed(state.seen()));
            if number.is_multiple_of(31) {
                check_snapshots(dir, &image, &snapshots);
            }
            check_writing(&image, case, number);
        });
        assert!(result.is_ok(), "{case:?}: {state}");
    }
}

/// Returns an image so small that a power cut is tested at every moment.
fn small(seed: u64) -> Case {
    let mut r = Random::new(seed ^ 0x1234);
    let plain = Case {
        seed,
        cluster_size: r.one_of(&[512, 512, 4096]),
        refcount_bits: r.one_of(&[8, 16, 64]),
        snapshots: r.one_of(&[0, 1, 1]),
        zstd: r.one_in(2),
        ..Case::plain()
    };
    if r.one_in(4) {
        return Case {
            cluster_size: 16384,
            extended_l2: true,
            ..plain
        };
    }
    plain
}

#[test]
fn a_crash_at_any_moment() {
    if !have_qemu() {
        return;
    }
    let seed = number("DISKFS_QEMU_SEED", 1);
    for seed in seed..seed + number("DISKFS_QEMU_ROUNDS", 3) {
        crash_everywhere(&small(seed), 30);
    }
}
