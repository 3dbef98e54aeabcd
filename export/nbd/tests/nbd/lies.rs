//! Servers that misbehave: they cost time and an error, and nothing else.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, ErrorKind, Memory};
use diskfs_nbd::client::{Nbd, Options, Uri};
use tempfile::TempDir;

use crate::client::connect;
use crate::rig::{Served, Slow};

#[test]
fn an_answer_in_time() {
    // The server accepts and says nothing.
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _silent = UnixListener::bind(&socket).unwrap();
    let uri: Uri = format!("nbd+unix:///?socket={}", socket.display())
        .parse()
        .unwrap();
    let options = Options {
        connect_timeout: Duration::from_millis(300),
        ..Options::default()
    };
    let begun = Instant::now();
    let late = Nbd::connect(&uri, options.clone()).unwrap_err().to_string();
    assert!(late.contains("in time"), "{late}");
    assert!(begun.elapsed() < Duration::from_secs(3));
    let nobody = Nbd::connect(&"nbd://127.0.0.1:1/".parse().unwrap(), options).unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::Io);
    // The server answers no request.
    let slow = Slow {
        inner: Memory::new(vec![5; 4 << 20]),
        delay: Duration::from_secs(5),
    };
    let served = Served::device(Arc::new(slow));
    let options = Options {
        request_timeout: Duration::from_secs(1),
        ..Options::default()
    };
    let device = Nbd::connect(&served.uri("").parse().unwrap(), options).unwrap();
    let begun = Instant::now();
    let late = device.read_at(0, &mut [0; 512]).unwrap_err().to_string();
    assert!(late.contains("in time"), "{late}");
    assert!(begun.elapsed() < Duration::from_secs(4));
    // Another connection is opened for the next request.
    device.read_at(2 << 20, &mut [0; 512]).unwrap();
}

/// Answers a client's handshake and then each request with `reply`, which gets its cookie.
fn lying_server(replies: Vec<Vec<u8>>) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = lie(&mut stream, &replies);
        }
    });
    (directory, uri)
}

fn lie(stream: &mut UnixStream, replies: &[Vec<u8>]) -> std::io::Result<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    stream.read_exact(&mut [0; 4])?;
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header)?;
        let len = u32::from_be_bytes(header[12..].try_into().unwrap());
        stream.read_exact(&mut vec![0; usize::try_from(len).unwrap()])?;
        let option = &header[8..12];
        let mut reply = |kind: u32, data: &[u8]| {
            let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
            bytes.extend(option);
            bytes.extend(kind.to_be_bytes());
            bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
            bytes.extend(data);
            stream.write_all(&bytes)
        };
        match option[3] {
            8 => reply(1, b"")?,
            7 => {
                let mut info = vec![0, 0];
                info.extend((16_u64 << 20).to_be_bytes());
                info.extend([0, 1]);
                reply(3, &info)?;
                reply(1, b"")?;
                break;
            }
            _ => reply((1 << 31) + 1, b"")?,
        }
    }
    let mut request = [0; 28];
    stream.read_exact(&mut request)?;
    for reply in replies {
        let mut reply = reply.clone();
        if reply.len() >= 16 {
            reply[8..16].copy_from_slice(&request[8..16]);
        }
        stream.write_all(&reply)?;
    }
    stream.read_exact(&mut request)
}

fn chunk(is_last: bool, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x668e_33ef_u32.to_be_bytes().to_vec();
    bytes.extend(u16::from(is_last).to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn lies_of_a_server_are_noticed() {
    let hole = |offset: u64, len: u32| {
        let payload = [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat();
        chunk(false, 2, &payload)
    };
    let end = chunk(true, 0, b"");
    let mut long = chunk(true, 1, b"");
    long[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    long.extend([0; 64]);
    let lies = [
        ("without all of its data", vec![end.clone()]),
        ("overlap", vec![hole(0, 512), hole(511, 1), end.clone()]),
        ("not within", vec![hole(0, 513), end.clone()]),
        ("not within", vec![hole(u64::MAX, 2), end.clone()]),
        ("not within", vec![long]),
        ("unexpected chunk", vec![chunk(true, 7, b"")]),
        ("unexpected chunk", vec![chunk(false, 0, b"")]),
        ("magic number", vec![vec![0; 20]]),
        ("truncated", vec![chunk(true, 0x8001, b"")]),
    ];
    for (reason, replies) in lies {
        let (_directory, uri) = lying_server(replies);
        let options = Options {
            request_timeout: Duration::from_millis(100),
            ..Options::default()
        };
        let device = Nbd::connect(&uri.parse().unwrap(), options).unwrap();
        let noticed = device.read_at(0, &mut [0; 512]).unwrap_err().to_string();
        assert!(noticed.contains(reason), "{reason}: {noticed}");
    }
    let (_directory, uri) = lying_server(vec![hole(0, 512), end]);
    let mut buf = [1; 512];
    connect(&uri).unwrap().read_at(0, &mut buf).unwrap();
    assert_eq!(buf, [0; 512]);
}
