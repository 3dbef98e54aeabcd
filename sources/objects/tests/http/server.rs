//! An HTTP server whose answers a test chooses.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The number of requests before it.
    pub(crate) number: u64,
    pub(crate) path: String,
    /// The header lines, in lower case.
    pub(crate) headers: Vec<String>,
}

impl Request {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the range that the request asks for, within an object of this size.
    pub(crate) fn range(&self, size: usize) -> Range<usize> {
        let range = self
            .header("range")
            .unwrap()
            .strip_prefix("bytes=")
            .unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let end = last.parse::<usize>().unwrap() + 1;
        first.parse().unwrap()..end.min(size)
    }
}

/// A server on a port of its own. It serves until the test ends.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<AtomicU64>,
}

type Answer = dyn Fn(&Request, &mut TcpStream) + Send + Sync;

impl Server {
    /// Starts a server that answers each request by `answer`.
    pub(crate) fn start(answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/disk", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicU64::new(0));
        let (counter, answer): (_, Arc<Answer>) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (counter, answer) = (Arc::clone(&counter), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &counter, answer.as_ref()));
            }
        });
        Self { url, requests }
    }

    /// Returns the number of requests until now.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, counter: &AtomicU64, answer: &Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim_end().is_empty() {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        let path = lines[0].split(' ').nth(1).unwrap().to_owned();
        let lower = |line: &String| match line.split_once(": ") {
            Some((name, value)) => format!("{}: {value}", name.to_ascii_lowercase()),
            None => String::new(),
        };
        let request = Request {
            number: counter.fetch_add(1, Ordering::Relaxed),
            path,
            headers: lines[1..].iter().map(lower).collect(),
        };
        answer(&request, &mut stream);
    }
}

/// Sends an answer. The client may have closed the connection.
pub(crate) fn send(stream: &mut TcpStream, status: &str, headers: &[String], body: &[u8]) {
    let mut head = format!("HTTP/1.1 {status}\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
}

/// Sends the range that a request asks for.
pub(crate) fn send_range(request: &Request, stream: &mut TcpStream, object: &[u8], etag: &str) {
    let range = request.range(object.len());
    let body = &object[range.clone()];
    let headers = [
        format!("Content-Length: {}", body.len()),
        format!(
            "Content-Range: bytes {}-{}/{}",
            range.start,
            range.end - 1,
            object.len()
        ),
        format!("ETag: {etag}"),
    ];
    send(stream, "206 Partial Content", &headers, body);
}

/// Returns an object whose bytes differ from place to place.
pub(crate) fn object(len: usize) -> Vec<u8> {
    (0..=250)
        .flat_map(|byte| [byte; 7])
        .cycle()
        .take(len)
        .collect()
}
