//! A running server, and calls to it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diskfs_fixtures::require;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::DISKFS;

/// A server on a Unix socket in a directory of its own, which also has the images.
pub(super) struct Server {
    child: Child,
    directory: Arc<TempDir>,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts a server with these options, if the client's programs are there.
    pub(super) fn start(options: &[&str]) -> Option<Self> {
        require("grpc-python")?;
        Some(Self::start_in(
            Arc::new(tempfile::tempdir().unwrap()),
            options,
        ))
    }

    /// Starts a server with these options and variables of the environment.
    pub(super) fn start_with(options: &[&str], variables: &[(&str, &str)]) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        Self::start_all(directory, options, variables)
    }

    /// Starts a server in a directory that another one had.
    pub(super) fn start_in(directory: Arc<TempDir>, options: &[&str]) -> Self {
        Self::start_all(directory, options, &[])
    }

    fn start_all(directory: Arc<TempDir>, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let socket = directory.path().join("deploy.sock");
        let mut child = Command::new(DISKFS)
            .args(["serve", "deploy", "--socket"])
            .arg(&socket)
            .args(options)
            .current_dir(directory.path())
            .env_remove("RUST_LOG")
            .env("DISKFS_VM", "none")
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (errors, copy) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                copy.lock().unwrap().extend([&*line, "\n"]);
            }
        });
        let server = Self {
            child,
            directory,
            log,
        };
        server.until("serving");
        server
    }

    /// Waits until the log has a text.
    pub(super) fn until(&self, text: &str) {
        let end = Instant::now() + Duration::from_mins(1);
        while !self.log().contains(text) {
            assert!(
                Instant::now() < end,
                "no `{text}` in the log: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Empties the log, so that [`until`](Self::until) waits for a new line.
    pub(super) fn forget_log(&self) {
        self.log.lock().unwrap().clear();
    }

    pub(super) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(super) fn directory(&self) -> Arc<TempDir> {
        Arc::clone(&self.directory)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the path of an image as a request has it.
    pub(super) fn image(&self, name: &str) -> Value {
        json!({ "path": self.path(name) })
    }

    pub(super) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    pub(super) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processes that carry out requests, or wait for one.
    pub(super) fn workers(&self) -> Vec<Pid> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process()));
        let mut all = Vec::new();
        for thread in threads.unwrap().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let is_worker = |id: &&str| {
                let name = fs::read_to_string(format!("/proc/{id}/comm"));
                name.is_ok_and(|name| name == "diskfs-worker\n")
            };
            let ids = children.split_whitespace().filter(is_worker);
            all.extend(ids.filter_map(|id| Pid::from_raw(id.parse().unwrap())));
        }
        all
    }

    /// Makes calls, and returns their results.
    pub(super) fn calls(&self, calls: &Value) -> Vec<Value> {
        let target = format!("unix:{}", self.path("deploy.sock").display());
        calls_to(&target, &[], calls)
    }

    /// Makes a call, and returns its result.
    pub(super) fn call(&self, method: &str, request: &Value) -> Value {
        let calls = json!([{ "call": method, "request": request }]);
        self.calls(&calls).remove(0)
    }

    /// Returns the answer to a call of the host-deployer's service that must succeed.
    pub(super) fn answer(&self, method: &str, request: &Value) -> Value {
        let result = self.call(&format!("apis.DeployAgent/{method}"), request);
        assert_eq!(result["code"], "OK", "{method}: {result}\n{}", self.log());
        result["answer"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes calls to a target of gRPC, with the files of TLS if there are any.
pub(super) fn calls_to(target: &str, tls: &[&Path], calls: &Value) -> Vec<Value> {
    let mut child = start_calls(target, tls, calls);
    let mut output = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut output).unwrap();
    assert!(child.wait().unwrap().success());
    serde_json::from_str(&output).unwrap()
}

/// Starts a client that makes calls.
pub(super) fn start_calls(target: &str, tls: &[&Path], calls: &Value) -> Child {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut child = Command::new("grpc-python")
        .arg(root.join("tests/serve/client.py"))
        .arg(root.join("proto"))
        .arg(target)
        .args(tls)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(calls.to_string().as_bytes()).unwrap();
    child
}
