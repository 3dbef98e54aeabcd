//! The host-deployer's own client, in Go, gets the answers that the client in Python gets.
//!
//!     DISKFS_CLOUDPODS=/path/to/cloudpods cargo test --test serve go_client -- --ignored

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::{Value, json};

use super::guest::debian;
use super::server::Server;

const VECTORS: [&str; 6] = ["01", "03", "04", "11", "13", "14"];

/// The client, built.
struct GoClient(PathBuf);

impl GoClient {
    /// Builds the client in a checkout, without a change of the checkout.
    fn build(directory: &Path) -> Self {
        let checkout = env::var_os("DISKFS_CLOUDPODS").map(PathBuf::from);
        let checkout = checkout.expect("DISKFS_CLOUDPODS names a checkout of Cloudpods");
        let package = "cmd/diskfs-client";
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/client.go");
        let overlay = json!({ "Replace": { checkout.join(package).join("main.go").display().to_string(): source } });
        fs::write(directory.join("overlay.json"), overlay.to_string()).unwrap();
        let client = directory.join("client");
        let built = Command::new("go")
            .args(["build", "-mod=vendor", "-overlay"])
            .arg(directory.join("overlay.json"))
            .arg("-o")
            .arg(&client)
            .arg(format!("./{package}"))
            .env("GOTOOLCHAIN", "local")
            .current_dir(&checkout)
            .status();
        assert!(built.unwrap().success(), "the client does not build");
        Self(client)
    }

    /// Makes calls, and returns their results.
    fn calls(&self, server: &Server, calls: &Value) -> Vec<Value> {
        let mut child = Command::new(&self.0)
            .arg(server.path("deploy.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(calls.to_string().as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
#[ignore = "needs a checkout of Cloudpods with its vendored sources in DISKFS_CLOUDPODS, and Go"]
fn both_clients_get_the_same_answers() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let client = GoClient::build(server.directory().path());
    for (method, request) in requests(&server) {
        let ask = |kind: &str| {
            // Each client has an image of its own.
            prepare(&server, kind);
            let request = request.to_string().replace("IMAGE", &image(&server, kind));
            serde_json::from_str::<Value>(&request).unwrap()
        };
        let python =
            json!([{ "call": format!("apis.DeployAgent/{method}"), "request": ask("python") }]);
        let python = server.calls(&python).remove(0);
        let go = json!([{ "call": method, "request": ask("go") }]);
        let go = client.calls(&server, &go).remove(0);
        if method == "DeployGuestFs" {
            assert_eq!(go["code"], "OK", "{go}");
        }
        assert_eq!(
            answer(&go, "go"),
            answer(&python, "python"),
            "{method}: {request}"
        );
    }
}

/// Returns the calls. The image of a client is called IMAGE in them.
fn requests(server: &Server) -> Vec<(&'static str, Value)> {
    let disk = json!({ "path": "IMAGE" });
    let missing = json!({ "path": server.path("missing.img") });
    let format = json!({ "disk_info": disk, "fs_format": "ext4", "uuid": "aaaabbbb-1111-2222-3333-444455556666" });
    let order = json!([{ "BootOrder": 1, "DevType": 1, "AttachOrder": 0 }]);
    let mut requests = vec![
        ("ProbeImageInfo", json!({ "disk_info": disk })),
        ("ProbeImageInfo", json!({ "disk_info": missing })),
        ("ResizeFs", json!({ "disk_info": disk })),
        ("ResizeFs", json!({ "disk_info": missing })),
        (
            "SaveToGlance",
            json!({ "disk_info": disk, "compress": true }),
        ),
        ("FormatFs", format),
        ("FormatFs", json!({ "disk_info": disk, "fs_format": "zfs" })),
        (
            "SetOvmfBootOrder",
            json!({ "OvmfVarsPath": "IMAGE", "devs": order }),
        ),
        (
            "ConnectEsxiDisks",
            json!({ "vddk_info": { "host": "esxi" } }),
        ),
        ("DisconnectEsxiDisks", json!({})),
    ];
    for name in VECTORS {
        let path = format!(
            "{}/tests/serve/vectors/{name}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let mut request: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        request["disk_info"] = disk.clone();
        requests.push(("DeployGuestFs", request));
    }
    requests
}

fn image(server: &Server, client: &str) -> String {
    server.path(&format!("{client}.img")).display().to_string()
}

fn prepare(server: &Server, client: &str) {
    debian(Path::new(&image(server, client)), "48M").expect("a guest can be made");
}

/// Returns a result without what differs between clients: spelling of codes, the path of the image,
/// fields with default values, and the key, which is random.
fn answer(result: &Value, client: &str) -> (String, String, Value) {
    let code = result["code"]
        .as_str()
        .unwrap()
        .replace('_', "")
        .to_lowercase();
    let message = result["message"].as_str().unwrap_or_default();
    let message = message.replace(&format!("{client}.img"), "IMAGE");
    let mut answer = result["answer"].clone();
    if let Some(key) = answer.get_mut("key") {
        let len = key.as_str().map_or(0, str::len);
        *key = len.into();
    }
    (code, message, without_defaults(answer))
}

fn without_defaults(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, without_defaults(value)));
            let kept = fields.filter(|(_, value)| !is_default(value));
            Value::Object(kept.collect())
        }
        Value::Null => json!({}),
        other => other,
    }
}

fn is_default(value: &Value) -> bool {
    value == "" || value == false || value == 0 || value == &json!({}) || value == &json!([])
}
