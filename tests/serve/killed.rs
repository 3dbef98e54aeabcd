//! Requests that end in the middle: the disk is as before or complete, and nothing is left behind.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::guest::{check, debian};
use super::server::{Server, start_calls};
use super::text;

/// A deployment that takes a while: large files.
fn slow(server: &Server) -> Value {
    let files: Vec<Value> = (0..12)
        .map(|number| json!({ "path": format!("/opt/{number}"), "content": "x".repeat(4 << 20) }))
        .collect();
    json!([{ "call": "apis.DeployAgent/DeployGuestFs", "request": {
        "disk_info": server.image("a.img"),
        "guest_desc": { "name": "after" },
        "deploy_info": { "is_init": true, "deploys": files },
    }}])
}

fn target(server: &Server) -> String {
    format!("unix:{}", server.path("deploy.sock").display())
}

/// Checks that the disk is old or new, and returns true if it is new.
fn old_or_new(server: &Server) -> bool {
    let directory = server.directory();
    // Completes the change if its transaction was committed.
    let hostname = text(directory.path(), &["cat", "a.img:/etc/hostname"]);
    let opt = text(directory.path(), &["find", "a.img:/"]);
    let files = opt
        .lines()
        .filter(|line| line.contains("/opt/") && !line.contains("cloudroot"));
    let is_new = hostname.trim() == "after";
    assert_eq!(files.count(), if is_new { 12 } else { 0 }, "{hostname}");
    let copy = server.path("copy.img");
    fs::copy(server.path("a.img"), &copy).unwrap();
    // The journal is replayed first, as by the guest's kernel.
    let _ = Command::new("e2fsck")
        .args(["-p"])
        .arg(&copy)
        .output()
        .unwrap();
    check(&copy);
    is_new
}

#[test]
fn a_killed_server_leaves_the_disk_old_or_new() {
    let Some(mut server) = Server::start(&[]) else {
        return;
    };
    let kills = std::env::var("DISKFS_KILLS")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(3_u64);
    for number in 0..kills {
        if debian(&server.path("a.img"), "128M").is_none() {
            return;
        }
        let mut client = start_calls(&target(&server), &[], &slow(&server));
        server.until("image opened");
        std::thread::sleep(Duration::from_millis(20 + number * 60));
        server.signal(Signal::KILL);
        server.wait();
        client.wait().unwrap();
        old_or_new(&server);
        let names: Vec<_> = fs::read_dir(server.directory().path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !matches!(&**name, "a.img" | "copy.img" | "deploy.sock"))
            .collect();
        assert!(names.is_empty(), "{names:?}");
        // A restarted server takes the disk at once.
        server = Server::start_in(server.directory(), &[]);
        let request =
            json!({ "disk_info": server.image("a.img"), "guest_desc": { "name": "again" } });
        server.answer("DeployGuestFs", &request);
        check(&server.path("a.img"));
    }
}

#[test]
fn a_client_that_is_gone_cancels_its_request() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "128M").is_none() {
        return;
    }
    let before = fs::read(server.path("a.img")).unwrap();
    let mut client = start_calls(&target(&server), &[], &slow(&server));
    server.until("image opened");
    client.kill().unwrap();
    client.wait().unwrap();
    // The next request for the disk waits until the cancelled one is over.
    let probe = json!({ "disk_info": server.image("a.img") });
    server.answer("ProbeImageInfo", &probe);
    if !old_or_new(&server) {
        assert!(
            before == fs::read(server.path("a.img")).unwrap(),
            "a cancelled request changes nothing"
        );
    }
    // A deadline does the same.
    let mut calls = slow(&server);
    calls[0]["timeout"] = 0.05.into();
    let result = server.calls(&calls).remove(0);
    assert_eq!(result["code"], "DEADLINE_EXCEEDED", "{result}");
    server.answer("ProbeImageInfo", &probe);
    old_or_new(&server);
}

/// The request fails, its disk is old or new, and the server goes on.
#[test]
fn a_killed_worker_harms_no_other_request() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "128M").is_none() {
        return;
    }
    let probe = json!({ "disk_info": server.image("a.img") });
    for delay in [0, 40, 120] {
        let requests = slow(&server);
        let result = std::thread::scope(|scope| {
            let client = scope.spawn(|| server.calls(&requests).remove(0));
            server.until("image opened");
            std::thread::sleep(Duration::from_millis(delay));
            for worker in server.workers() {
                let _ = rustix::process::kill_process(worker, Signal::KILL);
            }
            client.join().unwrap()
        });
        let is_new = old_or_new(&server);
        match &result["code"] {
            code if code == "OK" => assert!(is_new, "{result}"),
            code => {
                assert_eq!(code, "INTERNAL", "{result}");
                let message = result["message"].as_str().unwrap();
                assert!(message.contains("killed"), "{result}");
            }
        }
        server.answer("ProbeImageInfo", &probe);
        server.forget_log();
    }
}

/// A worker can open nothing and has no network: it has no such system call, and no more rights than
/// it needs.
#[test]
fn workers_are_confined() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let end = std::time::Instant::now() + Duration::from_secs(30);
    let is_confined = |worker: Pid| {
        let worker = worker.as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
        let environment = fs::read(format!("/proc/{worker}/environ")).unwrap_or_default();
        status.contains("Seccomp:\t2")
            && status.contains("NoNewPrivs:\t1")
            && environment.is_empty()
    };
    while server.workers().is_empty() || !server.workers().into_iter().all(is_confined) {
        assert!(std::time::Instant::now() < end, "{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_terminated_server_completes_or_cancels() {
    for timeout in ["60", "0"] {
        let Some(mut server) = Server::start(&["--stop-timeout", timeout]) else {
            return;
        };
        if debian(&server.path("a.img"), "128M").is_none() {
            return;
        }
        let client = start_calls(&target(&server), &[], &slow(&server));
        server.until("image opened");
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0), "{}", server.log());
        let output = client.wait_with_output().unwrap();
        let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let is_new = old_or_new(&server);
        assert_eq!(results[0]["code"] == "OK", is_new, "{results:?}");
        assert!(is_new || timeout == "0", "{results:?}");
    }
}

#[test]
fn the_server_keeps_no_descriptors() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let open = || {
        fs::read_dir(format!("/proc/{}/fd", server.process()))
            .unwrap()
            .count()
    };
    let request = json!({ "disk_info": server.image("a.img"), "guest_desc": { "name": "a" } });
    server.answer("DeployGuestFs", &request);
    let before = open();
    for _ in 0..3 {
        server.answer("DeployGuestFs", &request);
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(open() <= before + 2, "{} and {before}", open());
}

/// Returns the server's memory that is no file's, in KiB.
fn anonymous_kib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let line = line.unwrap().trim().trim_end_matches(" kB");
    line.parse().unwrap()
}

/// 240 requests, or as many as `DISKFS_REQUESTS` says.
#[test]
fn the_server_keeps_no_memory() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let count = std::env::var("DISKFS_REQUESTS").ok();
    let count: usize = count.and_then(|it| it.parse().ok()).unwrap_or(240);
    let calls = |from: usize, to: usize| {
        let calls: Vec<Value> = (from..to)
            .map(|number| {
                let mut call = json!({ "threads": 8, "call": "apis.DeployAgent/ProbeImageInfo",
                    "request": { "disk_info": server.image("a.img") } });
                if number % 2 == 0 {
                    call["call"] = "apis.DeployAgent/DeployGuestFs".into();
                    call["request"]["guest_desc"] = json!({ "name": format!("vm{number}") });
                    call["request"]["deploy_info"] = json!({ "password": format!("p{number}") });
                }
                call
            })
            .collect();
        for result in server.calls(&Value::Array(calls)) {
            assert_eq!(result["code"], "OK", "{result}");
        }
        anonymous_kib(&server)
    };
    // The first requests fill the pools of threads and of the allocator.
    let before = calls(0, count / 4);
    let after = calls(count / 4, count);
    assert!(after < before + 2048, "{before} and {after} KiB");
}
