//! The pool: what one job does harms no other.

use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_image::create::{NewBacking, NewImage, NewQcow2};
use diskfs_image::{CreateOptions, Gate, Image, OpenOptions, create};
use diskfs_sandbox::{
    Cancellation, Event, Grants, JobControl, JobError, Level, Limits, OtherAnswer, Pool,
    PoolOptions, Strictness,
    worker::{self, WorkerContext},
};

/// Says what is not tested here.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    let _ = writeln!(io::stderr(), "SKIP: {why}");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "as-worker") {
        return worker::serve(job);
    }
    let tests: &[(&str, fn())] = &[
        ("a_job_has_an_answer", a_job_has_an_answer),
        ("large_jobs", large_jobs),
        ("events_arrive_in_order", events_arrive_in_order),
        ("each_failure_has_a_type", each_failure_has_a_type),
        ("failures_harm_no_other_job", failures_harm_no_other_job),
        ("a_job_can_be_cancelled", a_job_can_be_cancelled),
        ("a_slow_answer_delays_no_end", a_slow_answer_delays_no_end),
        ("violations_are_noticed", violations_are_noticed),
        ("waiting_workers_may_die", waiting_workers_may_die),
        ("a_zygote_may_die", a_zygote_may_die),
        ("no_worker_resembles_another", no_worker_resembles_another),
        ("a_pool_without_a_program", a_pool_without_a_program),
        (
            "images_open_through_the_broker",
            images_open_through_the_broker,
        ),
        ("the_gate_holds_in_the_broker", the_gate_holds_in_the_broker),
        ("a_killed_writer", a_killed_writer_leaves_old_or_new),
        ("nothing_grows", nothing_grows),
        ("latency", latency),
    ];
    let filter: Vec<&String> = arguments
        .iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    for (name, test) in tests {
        if filter.is_empty() || filter.iter().any(|part| name.contains(part.as_str())) {
            let began = Instant::now();
            test();
            let _ = writeln!(io::stdout(), "test {name} ... ok ({:?})", began.elapsed());
        }
    }
    ExitCode::SUCCESS
}

/// The jobs: a word, and sometimes what follows it.
fn job(job: &[u8], context: &WorkerContext) -> Vec<u8> {
    let text = String::from_utf8_lossy(job).into_owned();
    let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
    match word {
        "echo" => rest.into(),
        "random" => random().into(),
        "address" => format!("{:p}", job_address()).into(),
        "len" => job.len().to_string().into(),
        "large" => vec![7; rest.parse().unwrap()],
        "panic" => panic!("the job says: {rest}"),
        "loop" => loop {
            std::hint::spin_loop();
        },
        "sleep" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        "patient" => {
            while !context.is_cancelled() {
                thread::sleep(Duration::from_millis(1));
            }
            b"stopped".into()
        }
        "bomb" => {
            let mut all = Vec::new();
            loop {
                all.push(vec![1_u8; 1 << 20]);
            }
        }
        "overflow" => deeper(1).to_string().into(),
        "exit" => std::process::exit(rest.parse().unwrap()),
        "abort" => {
            let _ = writeln!(io::stderr(), "about to\u{1b}[31m abort");
            std::process::abort()
        }
        "ask" => {
            let _stream = context.ask(b"stream").unwrap();
            context.ask(b"slow").unwrap().bytes
        }
        "pid" => std::process::id().to_string().into(),
        "events" => {
            context.progress(b"1/2");
            context.log(Level::Info, "test", "half\u{1b} done");
            context.progress(b"2/2");
            Vec::new()
        }
        "garbage" => {
            // The connection is descriptor 3 or above: written to without its lock.
            for fd in 3..6 {
                write_to(fd);
            }
            Vec::new()
        }
        "sizes" => sizes(Path::new(rest), context).into(),
        "write" => write_forever(Path::new(rest), context),
        other => panic!("unknown job {other}"),
    }
}

/// Returns what libraries take for random.
fn random() -> String {
    use std::hash::BuildHasher;
    let hash = std::collections::hash_map::RandomState::new().hash_one(0);
    let name = tempfile::Builder::new().make(|path| Ok(path.to_owned()));
    format!("{hash} {}", name.unwrap().path().display())
}

fn job_address() -> *const () {
    job as *const ()
}

fn deeper(n: u64) -> u64 {
    let room = std::hint::black_box([n; 512]);
    if n == 0 { 0 } else { deeper(n + 1) + room[1] }
}

fn write_to(fd: i32) {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: the process ends before anything else uses the descriptor.
    #[expect(unsafe_code, reason = "a compromised worker writes to what it finds")]
    let mut file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(fd) });
    let _ = file.as_raw_fd();
    let _ = file.write_all(&[0xff; 64]);
}

/// Describes the chain of an image: its sizes, or the error.
fn sizes(path: &Path, context: &WorkerContext) -> String {
    let options = OpenOptions {
        files: context.opener(),
        ..OpenOptions::default()
    };
    let image = match Image::open(path, &options) {
        Ok(image) => image,
        Err(error) => return format!("{:?}: {error}", error.kind()),
    };
    let mut sizes = Vec::new();
    let mut layer = Some(image.description());
    while let Some(description) = layer {
        sizes.push(description.virtual_size_bytes.to_string());
        layer = description.backing.as_deref();
    }
    let mut first = [0; 4];
    image.device().read_at(0, &mut first).unwrap();
    format!("{} {first:?}", sizes.join(" "))
}

/// Fills the disk with one byte after the other until it is killed.
fn write_forever(path: &Path, context: &WorkerContext) -> ! {
    let options = OpenOptions {
        files: context.opener(),
        ..OpenOptions::default()
    };
    let image = Image::open_writable(path, &options).unwrap();
    let device = image.device();
    for byte in (1..=255).cycle() {
        let block = vec![byte; 64 << 10];
        for at in (0..device.size_bytes()).step_by(block.len()) {
            device.write_at(at, &block).unwrap();
        }
        device.flush().unwrap();
        context.progress(&[byte]);
    }
    unreachable!()
}

fn options() -> PoolOptions {
    PoolOptions {
        strictness: Strictness::Required,
        limits: Limits {
            memory_bytes: Some(256 << 20),
            processor_time: Some(Duration::from_mins(1)),
            descriptors: Some(64),
            file_size_bytes: None,
        },
        ..PoolOptions::of_this_program(["as-worker"])
    }
}

fn pool() -> Pool {
    Pool::start(options()).unwrap()
}

fn run(pool: &Pool, job: &str) -> Result<String, JobError> {
    run_for(pool, job, Duration::from_secs(30))
}

fn run_for(pool: &Pool, job: &str, deadline: Duration) -> Result<String, JobError> {
    let mut control = JobControl {
        deadline: Some(deadline),
        ..JobControl::default()
    };
    let answer = pool.run(job.as_bytes(), &Grants::default(), &mut control)?;
    Ok(String::from_utf8(answer).unwrap())
}

fn a_job_has_an_answer() {
    let pool = pool();
    assert_eq!(run(&pool, "echo hello").unwrap(), "hello");
    let (one, other) = (run(&pool, "pid").unwrap(), run(&pool, "pid").unwrap());
    assert!(one != other && one != std::process::id().to_string());
}

fn large_jobs() {
    let pool = pool();
    let job = format!("len {}", "x".repeat(64 << 20));
    assert_eq!(run(&pool, &job).unwrap(), job.len().to_string());
    assert_eq!(run(&pool, "large 60000000").unwrap().len(), 60_000_000);
    let error = run(&pool, "large 70000000").unwrap_err();
    assert!(matches!(error, JobError::Protocol { .. }), "{error}");
}

fn events_arrive_in_order() {
    let mut events = Vec::new();
    let mut note = |event| events.push(event);
    let mut control = JobControl {
        events: Some(&mut note),
        ..JobControl::default()
    };
    pool()
        .run(b"events", &Grants::default(), &mut control)
        .unwrap();
    let line = Event::Log {
        level: Level::Info,
        target: "test".to_owned(),
        line: "half  done".to_owned(),
    };
    let progress = |text: &str| Event::Progress(text.into());
    assert_eq!(events, [progress("1/2"), line, progress("2/2")]);
}

fn each_failure_has_a_type() {
    let pool = pool();
    let failure = |job: &str| run(&pool, job).unwrap_err();
    let message = "the job says: no".to_owned();
    assert_eq!(failure("panic no"), JobError::Panicked { message });
    assert_eq!(failure("bomb"), JobError::OutOfMemory);
    let code = JobError::Exited {
        code: 7,
        last_words: None,
    };
    assert_eq!(failure("exit 7"), code);
    let words = Some("about to [31m abort".to_owned());
    assert_eq!(
        failure("abort"),
        JobError::Killed {
            signal: 6,
            last_words: words
        }
    );
    assert!(matches!(
        failure("overflow"),
        JobError::Killed { signal: 6 | 11, .. }
    ));
    let deadline = Duration::from_millis(300);
    for job in ["sleep", "loop"] {
        let error = run_for(&pool, job, deadline).unwrap_err();
        assert_eq!(error, JobError::OutOfTime { deadline });
    }
    let short = Pool::start(PoolOptions {
        limits: Limits {
            processor_time: Some(Duration::from_secs(1)),
            ..Limits::default()
        },
        ..options()
    });
    assert_eq!(
        run(&short.unwrap(), "loop").unwrap_err(),
        JobError::OutOfProcessorTime
    );
    assert_eq!(run(&pool, "echo still here").unwrap(), "still here");
}

fn failures_harm_no_other_job() {
    let pool = pool();
    let answers = AtomicUsize::new(0);
    thread::scope(|scope| {
        for job in ["panic x", "bomb", "abort", "exit 1", "overflow", "garbage"] {
            let pool = &pool;
            scope.spawn(move || {
                for _ in 0..3 {
                    let ended = run_for(pool, job, Duration::from_secs(20));
                    assert!(ended.is_err(), "{job}: {ended:?}");
                }
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..20 {
                    let text = format!("echo {n}");
                    assert_eq!(run(&pool, &text).unwrap(), n.to_string());
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(answers.into_inner(), 80);
}

fn a_job_can_be_cancelled() {
    let pool = pool();
    for (job, answer) in [
        ("patient", Ok(b"stopped".to_vec())),
        ("sleep", Err(JobError::Cancelled)),
    ] {
        let cancellation = Cancellation::new().unwrap();
        let switch = cancellation.clone();
        let later = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            switch.cancel();
        });
        let mut control = JobControl {
            cancellation: Some(&cancellation),
            ..JobControl::default()
        };
        let result = pool.run(job.as_bytes(), &Grants::default(), &mut control);
        assert_eq!(result, answer);
        later.join().unwrap();
    }
}

/// Neither the deadline nor a cancellation waits for an answer that needs the process, as one of a
/// microVM does whose disk the process serves.
fn a_slow_answer_delays_no_end() {
    let pool = pool();
    let cancellation = Cancellation::new().unwrap();
    cancellation.cancel();
    let deadline = Duration::from_millis(200);
    for (deadline, cancellation, ended) in [
        (Some(deadline), None, JobError::OutOfTime { deadline }),
        (None, Some(&cancellation), JobError::Cancelled),
    ] {
        let mut stream = None;
        let mut answer = |request: &[u8]| {
            if request == b"stream" {
                let (ours, theirs) = UnixStream::pair().unwrap();
                stream = Some(ours);
                return OtherAnswer {
                    bytes: Vec::new(),
                    descriptor: Some(theirs.into()),
                };
            }
            let ended = stream.take().unwrap().read(&mut [0]);
            assert_eq!(ended.unwrap(), 0, "the process has ended");
            OtherAnswer::default()
        };
        let mut control = JobControl {
            deadline,
            cancellation,
            requests: Some(&mut answer),
            ..JobControl::default()
        };
        let result = pool.run(b"ask", &Grants::default(), &mut control);
        assert_eq!(result, Err(ended));
    }
}

fn violations_are_noticed() {
    let error = run(&pool(), "garbage").unwrap_err();
    assert!(matches!(error, JobError::Protocol { .. }), "{error}");
}

fn waiting_workers_may_die() {
    let pool = Pool::start(PoolOptions {
        ready: 5,
        ..options()
    })
    .unwrap();
    assert_eq!(run(&pool, "echo x").unwrap(), "x");
    thread::sleep(Duration::from_millis(300));
    for child in children() {
        kill(child);
        wait_for_end(child);
    }
    assert_eq!(run(&pool, "echo y").unwrap(), "y");
}

fn a_zygote_may_die() {
    let pool = Pool::start(PoolOptions {
        ready: 0,
        ..options()
    })
    .unwrap();
    assert_eq!(run(&pool, "echo x").unwrap(), "x");
    let zygote = zygote();
    // A zygote without a process to wait for it is replaced, and its workers go on.
    thread::scope(|scope| {
        let patient = scope.spawn(|| run_for(&pool, "sleep", Duration::from_secs(2)));
        thread::sleep(Duration::from_millis(500));
        kill(zygote);
        wait_for_end(zygote);
        assert_eq!(run(&pool, "echo y").unwrap(), "y");
        let ended = patient.join().unwrap();
        assert!(
            matches!(ended, Err(JobError::OutOfTime { .. })),
            "{ended:?}"
        );
    });
}

fn no_worker_resembles_another() {
    let pool = pool();
    let answers = |job: &str, count: usize| -> Vec<String> {
        (0..count).map(|_| run(&pool, job).unwrap()).collect()
    };
    let randoms = answers("random", 10);
    let different: std::collections::HashSet<&String> = randoms.iter().collect();
    assert_eq!(different.len(), randoms.len(), "{randoms:?}");

    let before = answers("address", 1);
    if before[0] == run(&self::pool(), "address").unwrap() {
        return skip("the addresses of programs are not random on this host");
    }
    // After a crash, those that waited have the addresses that they had.
    run(&pool, "abort").unwrap_err();
    let after = answers("address", 5);
    assert_ne!(after.last(), before.last());
}

fn a_pool_without_a_program() {
    let pool = Pool::start(PoolOptions {
        program: "/no/such/program".into(),
        ..options()
    });
    let pool = pool.unwrap();
    for _ in 0..3 {
        let error = run(&pool, "echo").unwrap_err();
        assert!(matches!(error, JobError::Start { .. }), "{error}");
    }
    // A program that is no worker.
    let pool = Pool::start(PoolOptions {
        program: "/bin/true".into(),
        ..options()
    });
    assert!(run(&pool.unwrap(), "echo").is_err());
}

fn qcow2(backing: Option<(&str, diskfs_image::Format)>) -> NewImage {
    let backing = backing.map(|(name, format)| NewBacking {
        name: name.into(),
        format,
        check: diskfs_image::create::BackingCheck::Skip,
    });
    NewImage::Qcow2(Box::new(NewQcow2 {
        backing,
        ..NewQcow2::default()
    }))
}

/// Creates `dir/top.qcow2` over `name`.
fn overlay(dir: &Path, file: &str, name: &str) -> std::path::PathBuf {
    let path = dir.join(file);
    let image = qcow2(Some((name, diskfs_image::Format::Raw)));
    create(&path, &CreateOptions::new(image, Some(2 << 20))).unwrap();
    path
}

fn sizes_of(pool: &Pool, path: &Path, grants: &Grants) -> String {
    let job = format!("sizes {}", path.display());
    let answer = pool.run(job.as_bytes(), grants, &mut JobControl::default());
    String::from_utf8(answer.unwrap()).unwrap()
}

fn images_open_through_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("base.img"), vec![9; 1 << 20]).unwrap();
    let path = overlay(dir.path(), "top.qcow2", "base.img");
    let pool = pool();
    let grants = Grants::default().reading(&path);
    assert_eq!(
        sizes_of(&pool, &path, &grants),
        "2097152 1048576 [9, 9, 9, 9]"
    );
    let refused = sizes_of(&pool, &path, &Grants::default());
    assert!(refused.starts_with("Denied: "), "{refused}");
    // Locks work on descriptors that were passed on.
    let writer = Image::open_writable(&path, &OpenOptions::default()).unwrap();
    let locked = sizes_of(&pool, &path, &grants);
    assert!(locked.starts_with("Locked: "), "{locked}");
    drop(writer);
    let closed = grants.gate(Gate::closed());
    let refused = sizes_of(&pool, &path, &closed);
    assert!(
        refused.starts_with("Denied: ") && refused.contains("--no-backing"),
        "{refused}"
    );
}

/// Every name that the gate refuses is refused in the same words in a worker.
fn the_gate_holds_in_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("images");
    std::fs::create_dir_all(inside.join("sub")).unwrap();
    let outside = dir.path().join("outside.img");
    for file in [
        &outside,
        &inside.join(".hidden"),
        &inside.join("sub/base.img"),
    ] {
        std::fs::write(file, vec![1; 4096]).unwrap();
    }
    std::os::unix::fs::symlink(&outside, inside.join("link.img")).unwrap();
    std::os::unix::fs::symlink("sub/base.img", inside.join("good.img")).unwrap();
    let pool = pool();
    let names = [
        "sub/base.img",
        "good.img",
        "link.img",
        "../outside.img",
        "/etc/passwd",
        ".hidden",
        "sub",
        "missing.img",
        "nbd:localhost:10809",
        "json:{\"file.filename\":\"/etc/passwd\"}",
        "/dev/zero",
        "http://host/x",
        "top.qcow2",
    ];
    let mut opened = 0;
    for gate in [
        Gate::default(),
        Gate::closed(),
        Gate::default().allow(dir.path()),
    ] {
        for name in names {
            let path = inside.join("top.qcow2");
            let _ = std::fs::remove_file(&path);
            overlay(&inside, "top.qcow2", name);
            let options = OpenOptions {
                gate: gate.clone(),
                ..OpenOptions::default()
            };
            let direct = match Image::open(&path, &options) {
                Ok(_) => "opens".to_owned(),
                Err(error) => format!("{:?}: {error}", error.kind()),
            };
            let grants = Grants::default().reading(&path).gate(gate.clone());
            let brokered = sizes_of(&pool, &path, &grants);
            if direct == "opens" {
                opened += 1;
                assert!(brokered.contains('['), "{name}: {brokered}");
            } else {
                assert_eq!(direct, brokered, "{name}");
            }
        }
    }
    assert_eq!(opened, 2 + 4, "what the gate allows");
}

/// A worker is killed while it writes: the disk has whole rounds of the job, old or new.
fn a_killed_writer_leaves_old_or_new() {
    const SIZE: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.qcow2");
    let pool = pool();
    for round in 0..8_u32 {
        let _ = std::fs::remove_file(&path);
        create(&path, &CreateOptions::new(qcow2(None), Some(SIZE))).unwrap();
        let mut durable = 0_u8;
        let victim = AtomicUsize::new(0);
        let mut note = |event| {
            if let Event::Progress(bytes) = event {
                durable = bytes[0];
                if u32::from(durable) > round {
                    victim.store(1, Ordering::Relaxed);
                    for child in children() {
                        kill(child);
                    }
                }
            }
        };
        let job = format!("write {}", path.display());
        let grants = Grants::default().writing(&path);
        let mut control = JobControl {
            events: Some(&mut note),
            ..JobControl::default()
        };
        let ended = pool.run(job.as_bytes(), &grants, &mut control).unwrap_err();
        assert_eq!(
            ended,
            JobError::Killed {
                signal: 9,
                last_words: None
            }
        );
        let image = Image::open_writable(&path, &OpenOptions::default()).unwrap();
        image.close().unwrap();
        let image = Image::open(&path, &OpenOptions::default()).unwrap();
        let report = image.check().unwrap().unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
        let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
        image.device().read_at(0, &mut bytes).unwrap();
        let is_old_or_new = |byte: &u8| *byte >= durable && *byte <= durable + 2;
        assert!(bytes.iter().all(is_old_or_new), "after {durable}");
    }
}

fn nothing_grows() {
    let jobs = match std::env::var("DISKFS_JOBS").map(|jobs| jobs.parse()) {
        Ok(Ok(jobs)) => jobs,
        _ => 200,
    };
    if jobs < 2000 {
        skip_quietly("2,000 jobs in a row: set DISKFS_JOBS=2000");
    }
    let pool = pool();
    let some = |count: usize| {
        for n in 0..count {
            let job = match n % 20 {
                7 => "panic x",
                13 => "exit 3",
                _ => "echo x",
            };
            let _ = run(&pool, job);
        }
        thread::sleep(Duration::from_millis(300));
    };
    some(50);
    let before = (children().len(), descriptors(), memory_kib());
    some(jobs);
    let after = (children().len(), descriptors(), memory_kib());
    let _ = writeln!(
        io::stdout(),
        "{jobs} jobs: processes, descriptors, KiB {before:?} -> {after:?}"
    );
    assert_eq!((before.0, before.1), (after.0, after.1));
    assert!(after.2 < before.2 + 1024, "{before:?} {after:?}");
    drop(pool);
    assert_eq!(children().len(), 0);
}

/// Says what is left out, also in CI.
fn skip_quietly(what: &str) {
    let _ = writeln!(io::stderr(), "not run: {what}");
}

fn latency() {
    let pool = Pool::start(PoolOptions {
        ready: 4,
        ..options()
    })
    .unwrap();
    let mut times = Vec::new();
    for _ in 0..60 {
        // The next workers become ready meanwhile, as between two requests.
        thread::sleep(Duration::from_millis(30));
        let began = Instant::now();
        run(&pool, "echo x").unwrap();
        times.push(began.elapsed());
    }
    times.sort();
    let _ = writeln!(
        io::stdout(),
        "a job: median {:?}, 90 % {:?}",
        times[30],
        times[54]
    );
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        // The figure is what counts; on a busy host, only a gross error is noticed.
        assert!(times[30] < Duration::from_millis(100), "{times:?}");
    } else {
        skip("latency: one processor");
    }
}

/// Returns the process ids of the children of this process.
fn children() -> Vec<i32> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(
            list.split_whitespace()
                .map(|pid| pid.parse::<i32>().unwrap()),
        );
    }
    all
}

/// Returns the process from which workers are forked.
fn zygote() -> i32 {
    let is_zygote = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "diskfs-zygote")
    };
    children().into_iter().find(is_zygote).unwrap()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Waits until a killed process has ended, which takes a while on a busy machine.
fn wait_for_end(pid: i32) {
    let until = Instant::now() + Duration::from_secs(10);
    let status = format!("/proc/{pid}/status");
    while std::fs::read_to_string(&status).is_ok_and(|text| !text.contains("State:\tZ")) {
        assert!(Instant::now() < until, "{pid} does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn memory_kib() -> u64 {
    let file = std::fs::File::open("/proc/self/statm").unwrap();
    let mut text = [0; 128];
    let len = file.read_at(&mut text, 0).unwrap();
    let text = String::from_utf8_lossy(&text[..len]).into_owned();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4
}
