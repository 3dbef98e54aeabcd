//! Traces, received by another implementation of OpenTelemetry.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use diskfs_fixtures::require;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::guest::debian;
use super::server::Server;

/// A collector, and the lines that it prints.
struct Collector {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    port: String,
}

impl Collector {
    fn start() -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/collector.py");
        let mut child = Command::new("grpc-python")
            .arg(program)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        Self { child, lines, port }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn requests_are_traced() {
    if require("grpc-python").is_none() {
        return;
    }
    let mut collector = Collector::start();
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let mut server = Server::start_with(&[], &variables);
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let request = json!({ "disk_info": server.image("a.img") });
    server.answer("ProbeImageInfo", &request);
    let missing = json!({ "disk_info": server.image("missing.img") });
    server.call("apis.DeployAgent/ResizeFs", &missing);
    // The last traces are sent when the server ends.
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let (probe, resize) = (collector.next(), collector.next());
    assert_eq!(
        (&probe["service"], &probe["name"]),
        (&json!("diskfs"), &json!("request"))
    );
    assert_eq!(probe["attributes"]["method"], "ProbeImageInfo", "{probe}");
    let image = server.path("a.img").display().to_string();
    assert_eq!(probe["attributes"]["image"], image, "{probe}");
    let events = probe["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap(), "done", "{probe}");
    assert!(probe["nanoseconds"].as_u64().unwrap() > 0, "{probe}");
    assert_eq!(resize["attributes"]["method"], "ResizeFs", "{resize}");
    assert!(
        resize["events"][0]
            .as_str()
            .unwrap()
            .contains("missing.img"),
        "{resize}"
    );
}

#[test]
fn a_collector_that_does_not_answer_harms_no_request() {
    if require("grpc-python").is_none() {
        return;
    }
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")];
    let mut server = Server::start_with(&[], &variables);
    let missing = json!({ "disk_info": server.image("missing.img") });
    let result = server.call("apis.DeployAgent/ResizeFs", &missing);
    assert_eq!(result["code"], "NOT_FOUND", "{result}");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}
