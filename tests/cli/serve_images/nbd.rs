//! `diskfs serve images --nbd`, by QEMU's programs and libnbd.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use diskfs_fixtures::{TcpServer, TempImage, free_port, have, image};
use serde_json::Value;

use crate::resize_stacks::shell;
use crate::{DISKFS, diskfs_in};

/// A directory with a demo image, served by NBD.
struct Scene {
    demo: TempImage,
    port: u16,
    _server: TcpServer,
}

impl Scene {
    fn new(options: &[&str], prepare: impl Fn(&Path)) -> Option<Self> {
        if !have(&["qemu-img", "qemu-io", "nbdinfo", "nbdcopy"]) {
            return None;
        }
        let demo = image("demo.qcow2");
        fs::create_dir(demo.directory().join("more")).unwrap();
        prepare(demo.directory());
        let port = free_port();
        let address = format!("tcp:127.0.0.1:{port}");
        let mut command = Command::new(DISKFS);
        let command = command.args(["serve", "images", ".", "--nbd", &address]);
        let command = command.args(options).current_dir(demo.directory());
        let server = TcpServer::start(command, port);
        Some(Self {
            demo,
            port,
            _server: server,
        })
    }

    fn at(&self) -> &Path {
        self.demo.directory()
    }

    fn uri(&self, name: &str) -> String {
        format!("nbd://127.0.0.1:{}/{name}", self.port)
    }

    /// Runs a shell command in the directory, in which `NBD` is the server's URI.
    fn sh(&self, line: &str) -> String {
        shell(self.at(), &format!("NBD={}; {line}", self.uri("")))
    }

    /// Returns true if a client can use the image.
    fn has(&self, name: &str) -> bool {
        let uri = self.uri(name);
        let info = Command::new("nbdinfo").args(["--size", &uri]).output();
        info.unwrap().status.success()
    }
}

/// qemu-io that gets its commands one by one.
struct Io(Child);

impl Io {
    fn start(uri: &str) -> Self {
        let child = Command::new("qemu-io")
            .args(["-r", "-f", "raw", uri])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    fn run(&mut self, command: &str) {
        let stdin = self.0.stdin.as_mut().unwrap();
        writeln!(stdin, "{command}").unwrap();
        stdin.flush().unwrap();
        sleep(Duration::from_millis(1500));
    }

    fn end(self) -> String {
        let output = self.0.wait_with_output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&all).into_owned()
    }
}

#[test]
fn clients_read_images_by_name() {
    let scene = Scene::new(&["--nbd", "unix:more/socket"], |at| {
        fs::write(at.join("a b.raw"), vec![7; 1 << 20]).unwrap();
        fs::write(at.join(".hidden"), vec![7; 1 << 20]).unwrap();
        fs::write(at.join("more/inner"), vec![7; 1 << 20]).unwrap();
        symlink("demo.qcow2", at.join("link")).unwrap();
        shell(
            at,
            "qemu-img create -q -f qcow2 -b demo.qcow2 -F qcow2 overlay.qcow2",
        );
        shell(at, "head -c 4096 demo.qcow2 > cut.qcow2; gzip -k 'a b.raw'");
        shell(
            at,
            "printf 'QFI\\373\\0\\0\\0\\3' > bad.qcow2; head -c 1M /dev/urandom >> bad.qcow2",
        );
    });
    let Some(scene) = scene else { return };
    // Those that cannot be opened are listed, too, as by HTTP.
    let list = scene.sh("nbdinfo --list $NBD 2>&1 || true");
    for name in ["a b.raw", "demo.qcow2", "bad.qcow2", "overlay.qcow2"] {
        assert!(
            list.contains(&format!("\"{name}\"")) || list.contains(name),
            "{name}: {list}"
        );
    }
    assert!(
        !list.contains("hidden") && !list.contains("link") && !list.contains("more"),
        "{list}"
    );
    scene.sh(
        "qemu-img convert -f raw -O raw ${NBD}demo.qcow2 more/theirs.raw
         qemu-img compare -q -f raw -F qcow2 more/theirs.raw demo.qcow2
         nbdcopy ${NBD}demo.qcow2 more/copy.raw && cmp more/theirs.raw more/copy.raw
         nbdcopy 'nbd+unix:///a%20b.raw?socket=more/socket' more/a && cmp more/a 'a b.raw'
         nbdcopy ${NBD}'a%20b.raw.gz' more/z && cmp more/z 'a b.raw.gz'",
    );
    let url = scene.uri("demo.qcow2");
    let words = ["cat", &format!("{url}:/etc/hostname")];
    assert_eq!(diskfs_in(scene.at(), &words).text(), "demo\n");
    let info = scene.sh("nbdinfo --json ${NBD}demo.qcow2");
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["exports"][0]["is_read_only"], true, "{info}");
    for name in [
        "",
        "missing",
        ".hidden",
        "link",
        "more",
        "more/inner",
        "../demo.qcow2",
        "/etc/passwd",
        "bad.qcow2",
        "cut.qcow2",
        "overlay.qcow2",
    ] {
        assert!(!scene.has(name), "{name}");
        assert!(scene.has("demo.qcow2"), "after {name}");
    }
    let said = scene.sh("qemu-img info ${NBD}overlay.qcow2 2>&1 || true");
    assert!(said.contains("backing"), "{said}");
}

#[test]
fn a_replaced_image_stays_and_a_changed_one_fails() {
    let scene = Scene::new(&[], |at| {
        fs::write(at.join("disk"), vec![1; 1 << 20]).unwrap();
        fs::write(at.join("more/new"), vec![2; 1 << 20]).unwrap();
        fs::hard_link(at.join("disk"), at.join("more/old")).unwrap();
    });
    let Some(scene) = scene else { return };
    let mut io = Io::start(&scene.uri("disk"));
    io.run("read -P 1 0 4k");
    shell(scene.at(), "mv more/new disk");
    io.run("read -P 1 64k 4k");
    scene.sh("qemu-io -r -f raw -c 'read -P 2 0 1M' ${NBD}disk | grep -v failed");
    fs::remove_file(scene.at().join("disk")).unwrap();
    assert!(!scene.has("disk"));
    io.run("read -P 1 128k 4k");
    shell(
        scene.at(),
        "printf x | dd of=more/old conv=notrunc status=none",
    );
    io.run("read -P 1 256k 4k");
    let said = io.end();
    assert_eq!(said.matches("read 4096/4096 bytes").count(), 3, "{said}");
    assert_eq!(
        said.matches("read failed: Input/output error").count(),
        1,
        "{said}"
    );
    assert!(!said.contains("verification"), "{said}");
}

#[test]
fn a_file_of_tokens_closes_addresses() {
    let scene = Scene::new(&[], |at| {
        fs::write(at.join("more/tokens"), "first-token-0123456789\n").unwrap();
        fs::set_permissions(at.join("more/tokens"), PermissionsExt::from_mode(0o600)).unwrap();
    });
    let Some(scene) = scene else { return };
    let words = [
        "serve",
        "images",
        ".",
        "--token-file",
        "more/tokens",
        "--nbd",
    ];
    let serve = |more: &[&str]| diskfs_in(scene.at(), &[&words, more].concat());
    let (_, said) = serve(&["tcp:127.0.0.1:0"]).failure();
    assert!(
        said.contains("--tls-client-ca") && said.contains("unix:PATH"),
        "{said}"
    );
    let (code, said) = serve(&["systemd"]).failure();
    assert!(code != 0 && said.contains("unix:PATH"), "{said}");
    assert_eq!(
        diskfs_in(scene.at(), &["serve", "images", "."]).code(),
        Some(2)
    );
    let mut command = Command::new(DISKFS);
    let command = command.args(words).args(["unix:more/socket"]);
    let mut server = command
        .current_dir(scene.at())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    await_socket(&scene.at().join("more/socket"));
    let copy = "nbdcopy 'nbd+unix:///demo.qcow2?socket=more/socket' more/copy";
    shell(scene.at(), copy);
    // A killed server leaves its socket, which the next one replaces.
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(scene.at().join("more/socket").exists());
    let mut server = command.stderr(Stdio::null()).spawn().unwrap();
    await_socket(&scene.at().join("more/socket"));
    shell(scene.at(), copy);
    shell(scene.at(), &format!("kill {}", server.id()));
    assert!(server.wait().unwrap().success());
    assert!(!scene.at().join("more/socket").exists());
}

#[test]
fn certificates_stand_for_tokens() {
    if !have(&["openssl"]) {
        return;
    }
    let options = [
        "--token-file",
        "more/tokens",
        "--tls-cert",
        "more/server-cert.pem",
        "--tls-key",
        "more/server-key.pem",
        "--tls-client-ca",
        "more/ca-cert.pem",
    ];
    let scene = Scene::new(&options, |at| {
        fs::write(at.join("more/tokens"), "first-token-0123456789\n").unwrap();
        fs::set_permissions(at.join("more/tokens"), PermissionsExt::from_mode(0o600)).unwrap();
        shell(&at.join("more"), CERTIFICATES);
    });
    let Some(scene) = scene else { return };
    let info = |credentials: &str| {
        scene.sh(&format!(
            "qemu-img info --object tls-creds-x509,id=t,endpoint=client,dir={credentials} \
             --image-opts driver=nbd,host=localhost,port={},export=demo.qcow2,tls-creds=t 2>&1 \
             || true",
            scene.port
        ))
    };
    let said = info("more");
    assert!(said.contains("virtual size"), "{said}");
    let said = info("more/nobody");
    assert!(!said.contains("virtual size"), "{said}");
    let said = scene.sh("nbdinfo ${NBD}demo.qcow2 2>&1 || true");
    assert!(said.contains("TLS"), "{said}");
}

/// Makes an authority, and the certificates of a server and a client.
const CERTIFICATES: &str = "set -e
new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 $new -days 2 -subj /CN=ca -keyout ca-key.pem -out ca-cert.pem \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
for name in server client; do
    printf 'extendedKeyUsage=%sAuth\nsubjectAltName=DNS:localhost\nkeyUsage=critical,\
digitalSignature,keyEncipherment\nbasicConstraints=critical,CA:FALSE\n' $name > ext
    openssl req $new -subj /CN=$name -keyout $name-key.pem -out csr
    openssl x509 -req -in csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
        -extfile ext -out $name-cert.pem
done 2>/dev/null
mkdir nobody && cp ca-cert.pem nobody";

#[test]
fn silent_clients_do_not_hold_others_up() {
    let scene = Scene::new(&[], |_| {});
    let Some(scene) = scene else { return };
    let connect = || TcpStream::connect(("127.0.0.1", scene.port)).unwrap();
    let mut silent: Vec<_> = (0..40).map(|_| connect()).collect();
    assert!(scene.has("demo.qcow2"));
    let start = Instant::now();
    // More than the server takes: it closes them at once.
    let more: Vec<_> = (0..40).map(|_| connect()).collect();
    for stream in &mut silent {
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.starts_with(b"NBDMAGIC"), "{said:?}");
    }
    assert!(start.elapsed() > Duration::from_secs(5));
    drop(more);
    sleep(Duration::from_secs(1));
    assert!(scene.has("demo.qcow2"));
}

fn await_socket(path: &Path) {
    let start = Instant::now();
    while UnixStream::connect(path).is_err() {
        assert!(start.elapsed() < Duration::from_mins(1));
        sleep(Duration::from_millis(20));
    }
}
