//! A compromised parser in a confined process: no way leads out.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use diskfs_sandbox::planted;
use diskfs_sandbox::{
    Calls, Grants, HostFiles, JobControl, Pool, PoolOptions, Profile, Strictness, worker,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["as-worker"] => return worker::serve(|_, _| report().into_bytes()),
        ["as-reader", dir] => read(Path::new(dir)),
        ["unconfined"] => print(&shown(&planted::try_files_and_sockets())),
        _ => {
            a_compromised_worker_gets_nowhere();
            a_compromised_reader_gets_nowhere();
            the_tries_succeed_without_confinement();
        }
    }
    ExitCode::SUCCESS
}

fn print(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).unwrap();
}

fn report() -> String {
    shown(&planted::try_everything())
}

fn shown(report: &planted::Report) -> String {
    format!("{}\n{}", report.tried, report.succeeded.join("\n"))
}

#[track_caller]
fn check(report: &str) {
    let (tried, succeeded) = report.split_once('\n').unwrap();
    assert!(tried.parse::<u32>().unwrap() > 120, "{tried}");
    assert_eq!(succeeded, "", "the confinement has a hole");
}

fn a_compromised_worker_gets_nowhere() {
    // A descriptor that any program inherits.
    let leaked = std::fs::File::open("/").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let pool = Pool::start(PoolOptions {
        strictness: Strictness::Required,
        ..PoolOptions::of_this_program(["as-worker"])
    });
    let answer = pool
        .unwrap()
        .run(b"", &Grants::default(), &mut JobControl::default());
    check(&String::from_utf8(answer.unwrap()).unwrap());
}

fn a_compromised_reader_gets_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("image"), "bytes").unwrap();
    let reader = Command::new("/proc/self/exe")
        .arg("as-reader")
        .arg(dir.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&reader.stderr);
    assert!(reader.status.success(), "{error}");
    check(&String::from_utf8(reader.stdout).unwrap());
}

fn read(dir: &Path) {
    let profile = Profile {
        files: HostFiles {
            read: vec![dir.to_owned()],
            ..HostFiles::default()
        },
        calls: Calls::ReadFiles,
        strictness: Strictness::Required,
        ..Profile::default()
    };
    profile.apply().unwrap();
    let image = dir.join("image");
    assert_eq!(std::fs::read(&image).unwrap(), b"bytes");
    assert!(std::fs::write(&image, "x").is_err() && std::fs::remove_file(&image).is_err());
    // What a parser needs is left: threads, their stacks, and memory.
    let thread = std::thread::spawn(|| vec![1_u8; 10 << 20].len());
    assert_eq!(thread.join().unwrap(), 10 << 20);
    print(&report());
}

/// The tries are real: many of them succeed in a process that is not confined.
fn the_tries_succeed_without_confinement() {
    let program = Command::new("/proc/self/exe").arg("unconfined").output();
    let output = String::from_utf8(program.unwrap().stdout).unwrap();
    let _ = std::fs::remove_dir("/tmp/planted");
    let _ = std::fs::remove_file("/tmp/planted");
    assert!(output.lines().count() > 40, "{output}");
}
