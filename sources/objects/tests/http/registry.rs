//! Registries that ask for tokens, fail, lie or attack.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{BlockRead, Error, ErrorKind};
use diskfs_objects::{Options, Registry, RegistryAccess};
use diskfs_oci::{Digest, RegistryName, RegistryPart};

use crate::server::{Request, Server, object, send, send_range};

const LEN: usize = 3 << 20;

fn options() -> Options {
    Options {
        connect_timeout: Duration::from_secs(2),
        stall_timeout: Duration::from_millis(300),
        open_timeout: Duration::from_secs(1),
        retry_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}

/// Returns the address of a server, with its port.
fn host(server: &Server) -> &str {
    let rest = server.url.strip_prefix("http://").unwrap();
    rest.strip_suffix("/disk").unwrap()
}

fn registry(server: &Server, reference: &str) -> Registry {
    let name = format!("oci://{}/a/b{reference}", host(server));
    let name = RegistryName::parse(&name).unwrap();
    Registry::new(name, RegistryAccess::Pull, &options()).unwrap()
}

fn answer(stream: &mut TcpStream, status: &str, headers: &[String], body: &[u8]) {
    let mut headers = headers.to_vec();
    headers.push(format!("Content-Length: {}", body.len()));
    send(stream, status, &headers, body);
}

fn challenge(stream: &mut TcpStream, realm: &str) {
    let header = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"s\"");
    answer(stream, "401 Unauthorized", &[header], b"");
}

fn read(device: &dyn BlockRead) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn tokens_go_only_to_the_registry() {
    let blob = Arc::new(object(LEN));
    let digest = Digest::of(&blob);
    let tokens = Server::start(|request, stream| {
        assert_eq!(
            request.path,
            "/disk?service=s&scope=repository%3Aa%2Fb%3Apull"
        );
        assert!(request.header("authorization").is_none());
        let token = format!("{{\"token\": \"t{}\"}}", request.number);
        answer(stream, "200 OK", &[], token.as_bytes());
    });
    let bytes = Arc::clone(&blob);
    let storage = Server::start(move |request, stream| {
        assert!(request.header("authorization").is_none());
        if request.number == 1 {
            // The address expires.
            return answer(stream, "403 Forbidden", &[], b"");
        }
        send_range(request, stream, &bytes, "\"1\"");
    });
    let (realm, at) = (tokens.url.clone(), storage.url.clone());
    let server = Server::start(move |request, stream| {
        // The first token expires before the storage is asked for again.
        let valid = if request.number < 3 {
            "Bearer t0"
        } else {
            "Bearer t1"
        };
        if request.header("authorization") != Some(valid) {
            challenge(stream, &realm);
        } else if request.path == "/v2/a/b/manifests/v1" {
            assert!(
                request
                    .header("accept")
                    .unwrap()
                    .contains("oci.image.index")
            );
            answer(stream, "200 OK", &[], b"{}");
        } else {
            let location = format!("Location: {at}?secret");
            answer(stream, "307 Temporary Redirect", &[location], b"");
        }
    });
    let registry = registry(&server, ":v1");
    assert_eq!(
        read(registry.open(&RegistryPart::Root).unwrap().as_ref()),
        b"{}"
    );
    let device = registry.open(&RegistryPart::Blob(digest)).unwrap();
    assert_eq!(read(device.as_ref()), *blob);
    assert_eq!(tokens.requests(), 2);
}

/// Returns the error of opening the image, or of reading the blob.
fn failure(respond: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> (Error, u64) {
    let server = Server::start(respond);
    let digest = Digest::of(b"x");
    let registry = registry(&server, "");
    let parts = [RegistryPart::Root, RegistryPart::Blob(digest)];
    let read = |part| -> Result<(), Error> {
        let device = registry.open(part)?;
        let middle = device.size_bytes() / 2;
        device.read_at(middle, &mut [0; 1])
    };
    let error = parts.iter().find_map(|part| read(part).err());
    let error = error.expect("the server is bad");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    (error, server.requests())
}

#[test]
fn bad_registries_are_errors() {
    let (error, requests) = failure(|request, stream| {
        let realm = request.header("host").unwrap();
        if request.path.starts_with("/token") {
            return answer(stream, "200 OK", &[], b"{\"access_token\": \"s3cret\"}");
        }
        challenge(stream, &format!("http://{realm}/token"));
    });
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(requests, 3);
    for realm in [
        "file:///etc/passwd",
        "http://10.0.0.1/t",
        "x",
        "http://u:p@127.0.0.1/t",
    ] {
        let (error, _) = failure(move |_, stream| challenge(stream, realm));
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("server of tokens"), "{error}");
    }
    let (error, _) = failure(|_, stream| {
        let digest = format!("Docker-Content-Digest: {}", Digest::of(b"other"));
        answer(stream, "200 OK", &[digest], b"{}");
    });
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let (error, _) = failure(|_, stream| {
        send(stream, "200 OK", &["Connection: close".to_owned()], b"");
        while stream.write_all(&[b' '; 8192]).is_ok() {}
    });
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    for place in ["file:///etc/passwd", "ftp://127.0.0.1/x"] {
        let (error, _) = failure(move |_, stream| {
            let location = format!("Location: {place}");
            answer(stream, "307 Temporary Redirect", &[location], b"");
        });
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    }
}

#[test]
fn bad_blobs_are_errors() {
    let is_root = |request: &Request| request.path.contains("manifests");
    // Fewer bytes than announced, and a blob that shrinks.
    let (error, _) = failure(move |request, stream| {
        if is_root(request) {
            return answer(stream, "200 OK", &[], b"{}");
        }
        let range = format!("Content-Range: bytes 0-131071/{LEN}");
        let headers = [
            range,
            "Content-Length: 131072".to_owned(),
            "Connection: close".to_owned(),
        ];
        send(stream, "206 Partial Content", &headers, &[0; 100]);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let (error, _) = failure(move |request, stream| {
        if is_root(request) {
            return answer(stream, "200 OK", &[], b"{}");
        }
        let len = if request.number == 1 { LEN } else { LEN - 1 };
        send_range(request, stream, &object(len), "\"1\"");
    });
    assert!(error.to_string().contains("changed"), "{error}");
}

#[test]
fn reasons_of_registries_are_bounded_and_printable() {
    let reason = |body: Vec<u8>| {
        failure(move |request, stream| {
            let realm = request.header("host").unwrap();
            if request.path.starts_with("/token") {
                return answer(stream, "200 OK", &[], b"{\"token\": \"s3cret\"}");
            }
            if request.header("authorization").is_none() {
                return challenge(stream, &format!("http://{realm}/token"));
            }
            answer(stream, "403 Forbidden", &[], &body);
        })
        .0
        .to_string()
    };
    let text =
        reason(br#"{"errors": [{"code": "DENIED", "message": "got s3cret\u001b[2J"}]}"#.to_vec());
    assert!(text.contains("DENIED (got ***\\u{1b}[2J)"), "{text}");
    let long = format!(
        "{{\"errors\": [{{\"message\": \"{}\"}}]}}",
        "x".repeat(10_000)
    );
    assert!(reason(long.into_bytes()).len() < 600);
    assert!(reason(vec![b'x'; 1 << 20]).contains("403"));
    assert!(reason(b"<html>".to_vec()).contains("403"));
}
