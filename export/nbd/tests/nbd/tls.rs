//! TLS, with QEMU's programs and our own client.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, Memory};
use diskfs_fixtures::{have, run};
use diskfs_nbd::client::{Nbd, Options as ClientOptions, Tls as ClientTls};
use diskfs_nbd::server::{Export, Options, Server, Tls};
use tempfile::TempDir;

use crate::hand::Hand;
use crate::rig::Served;

/// A certificate authority with a server's and a client's certificates, made by openssl.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let authority = Self(tempfile::tempdir().unwrap());
        authority.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ca \
             -keyout ca-key.pem -out ca-cert.pem -addext basicConstraints=critical,CA:TRUE \
             -addext keyUsage=critical,keyCertSign",
        );
        authority.certificate("server", "serverAuth");
        authority.certificate("client", "clientAuth");
        authority
    }

    fn openssl(&self, line: &str) {
        let directory = self.0.path().display().to_string();
        let script = format!("cd {directory} && openssl {line}");
        run("sh", ["-c", &script]).unwrap();
    }

    fn certificate(&self, name: &str, usage: &str) {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} \
             -keyout {name}-key.pem -out {name}.csr"
        ));
        let extensions = format!(
            "extendedKeyUsage={usage}\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n\
             keyUsage=critical,digitalSignature,keyEncipherment\nbasicConstraints=critical,CA:FALSE\n"
        );
        fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
             -extfile {name}.ext -out {name}-cert.pem"
        ));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn required(&self, client_ca: Option<&Path>) -> Tls {
        let (certificate, key) = (self.path("server-cert.pem"), self.path("server-key.pem"));
        Tls::required(&certificate, &key, client_ca).unwrap()
    }

    fn client(&self, has_certificate: bool) -> ClientOptions {
        let (certificate, key) = (self.path("client-cert.pem"), self.path("client-key.pem"));
        let identity = has_certificate.then_some((&*certificate, &*key));
        ClientOptions {
            tls: Some(ClientTls::new(&self.path("ca-cert.pem"), identity).unwrap()),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
            ..ClientOptions::default()
        }
    }
}

/// Serves a disk over TCP, and returns its port.
fn serve(tls: Tls) -> (Server, u16) {
    let export = Export::writable("disk", Arc::new(Memory::new(vec![6; 4 << 20])));
    let options = Options {
        tls,
        ..Options::default()
    };
    let server = Server::start(vec![export], options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    server.listen(listener).unwrap();
    (server, port)
}

fn qemu_img(directory: &Path, port: u16) -> anyhow::Result<String> {
    let object = format!(
        "tls-creds-x509,id=tls0,endpoint=client,dir={}",
        directory.display()
    );
    let image = format!(
        "driver=nbd,server.type=inet,server.host=localhost,server.port={port},export=disk,\
         tls-creds=tls0"
    );
    run(
        "qemu-img",
        ["info", "--object", &object, "--image-opts", &image],
    )
}

#[test]
fn both_clients_use_tls_with_certificates() {
    if !have(&["openssl", "qemu-img"]) {
        return;
    }
    let authority = Authority::new();
    let ca = authority.path("ca-cert.pem");
    let (server, port) = serve(authority.required(Some(&ca)));
    let info = qemu_img(authority.0.path(), port).unwrap();
    assert!(info.contains("4 MiB"), "{info}");
    if have(&["nbdinfo"]) {
        let directory = authority.0.path().display();
        let uri = format!("nbds://localhost:{port}/disk?tls-certificates={directory}");
        let info = run("nbdinfo", ["--json", &uri]).unwrap();
        assert!(info.contains("\"TLS\": true"), "{info}");
    }
    let uri = format!("nbds://localhost:{port}/disk").parse().unwrap();
    let device = Nbd::connect(&uri, authority.client(true)).unwrap();
    let mut buf = vec![0; 3 << 20];
    device.read_at(512, &mut buf).unwrap();
    assert!(buf.iter().all(|byte| *byte == 6));
    device.write_at(0, &buf).unwrap();
    device.flush().unwrap();
    // By the directory that the URI names.
    let directory = authority.0.path().display();
    let uri = format!("nbds://127.0.0.1:{port}/disk?tls-certificates={directory}");
    let other = Nbd::connect(&uri.parse().unwrap(), ClientOptions::default()).unwrap();
    other.read_at(0, &mut [0; 512]).unwrap();
    drop((device, other));
    server.stop().unwrap();
}

#[test]
fn clients_without_tls_or_a_certificate_are_refused() {
    if !have(&["openssl", "qemu-img"]) {
        return;
    }
    let authority = Authority::new();
    let ca = authority.path("ca-cert.pem");
    let (server, port) = serve(authority.required(Some(&ca)));
    let connect = |uri: &str, options| {
        let uri = uri.replace("PORT", &port.to_string());
        Nbd::connect(&uri.parse().unwrap(), options).unwrap_err()
    };
    let plain = connect("nbd://localhost:PORT/disk", ClientOptions::default());
    assert_eq!(plain.kind(), ErrorKind::Denied, "{plain}");
    assert!(plain.to_string().contains("nbds://"), "{plain}");
    connect("nbds://localhost:PORT/disk", authority.client(false));
    let stranger = Authority::new();
    let untrusted = connect("nbds://localhost:PORT/disk", stranger.client(true));
    assert_eq!(untrusted.kind(), ErrorKind::Denied, "{untrusted}");
    let name = connect(
        "nbds://localhost:PORT/disk?tls-hostname=other",
        authority.client(true),
    );
    assert_eq!(name.kind(), ErrorKind::Denied, "{name}");
    let missing = connect("nbds://localhost:PORT/disk", ClientOptions::default());
    assert!(
        missing.to_string().contains("tls-certificates"),
        "{missing}"
    );
    // QEMU without TLS.
    let uri = format!("nbd://localhost:{port}/disk");
    assert!(run("qemu-img", ["info", &uri]).is_err());
    server.stop().unwrap();
    // A client that insists on TLS, and a server without it.
    let (server, port) = serve(Tls::off());
    let uri = format!("nbds://localhost:{port}/disk").parse().unwrap();
    let refused = Nbd::connect(&uri, authority.client(true)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    server.stop().unwrap();
}

#[test]
fn before_tls_nothing_but_tls_is_negotiated() {
    if !have(&["openssl"]) {
        return;
    }
    let authority = Authority::new();
    let export = Export::writable("", Arc::new(Memory::new(vec![6; 4 << 20])));
    let options = Options {
        tls: authority.required(None),
        ..Options::default()
    };
    let served = Served::start(vec![export], options);
    let mut hand = Hand::greet(served.connect());
    let required = (1 << 31) + 5;
    for option in [3, 6, 7, 8, 9, 10, 11, 99] {
        assert_eq!(hand.option(option, b"").last().unwrap().0, required);
    }
    assert_eq!(hand.option(5, b"x").last().unwrap().0, (1 << 31) + 3);
    hand.send_option(1, b"");
    assert!(hand.is_closed());
    // Options behind STARTTLS, which an attacker could have put there.
    let mut hand = Hand::greet(served.connect());
    let mut injected = b"IHAVEOPT\0\0\0\x05\0\0\0\0".to_vec();
    injected.extend(b"IHAVEOPT\0\0\0\x08\0\0\0\0");
    std::io::Write::write_all(&mut hand.0, &injected).unwrap();
    assert!(hand.is_closed());
    served.server.stop().unwrap();
}

#[test]
fn tls_may_be_the_clients_choice() {
    if !have(&["openssl"]) {
        return;
    }
    let authority = Authority::new();
    let (certificate, key) = (
        authority.path("server-cert.pem"),
        authority.path("server-key.pem"),
    );
    let (server, port) = serve(Tls::allowed(&certificate, &key, None).unwrap());
    for (scheme, options) in [
        ("nbd", ClientOptions::default()),
        ("nbds", authority.client(false)),
    ] {
        let uri = format!("{scheme}://localhost:{port}/disk").parse().unwrap();
        let device = Nbd::connect(&uri, options).unwrap();
        device.read_at(0, &mut [0; 512]).unwrap();
    }
    server.stop().unwrap();
    let swapped = Tls::allowed(&key, &certificate, None).unwrap_err();
    assert_eq!(swapped.kind(), ErrorKind::Invalid, "{swapped}");
    let missing = Tls::allowed(&authority.path("none.pem"), &key, None).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
}
