//! A command of the program that runs as a child process, and what it prints.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// The part of the output that is kept until the command ends, so that the answer's status is that
/// of the command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// The maximum size in bytes.
    bytes: usize,
    /// Output that arrives more slowly is passed on after this time.
    time: Duration,
}

impl Kept {
    /// The part for requests that read, whose entries appear while the command still runs.
    pub(crate) const BEGINNING: Self = Self {
        bytes: 64 << 10,
        time: Duration::from_millis(300),
    };
    /// The part for requests that change: their whole output, which is short.
    pub(crate) const ALL: Self = Self {
        bytes: 16 << 20,
        time: Duration::from_hours(1),
    };
}

/// The maximum size of what the command prints on standard error.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;

/// The size of a piece of the output.
const PIECE_BYTES: usize = 64 << 10;

/// The number of pieces that wait for the client.
const WAITING_PIECES: usize = 4;

/// The output of a command.
#[derive(Debug)]
pub(crate) enum Output {
    /// The command has ended.
    Whole(Ended),
    /// The command still runs: the beginning, then the rest as it arrives. An error is the last
    /// item if the command fails.
    Streamed(mpsc::Receiver<io::Result<Bytes>>),
}

/// The output of a command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: Bytes,
    /// The errors and warnings from standard error.
    pub(crate) messages: Vec<Value>,
    /// The exit code; `None` if a signal killed the command.
    pub(crate) exit_code: Option<i32>,
}

/// Runs a command with this standard input until it has printed a part of its output, or has ended.
/// If the future or the receiver is dropped, the command is killed.
///
/// # Errors
/// Fails if the program cannot be started.
pub(crate) async fn run(
    program: &Path,
    words: &[OsString],
    input: Bytes,
    kept: Kept,
    succeeds_with: impl Fn(i32) -> bool + Send + 'static,
    permit: OwnedSemaphorePermit,
) -> io::Result<Output> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(if input.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input says why on standard error.
        tokio::spawn(async move { drop(stdin.write_all(&input).await) });
    }
    let stderr = child.stderr.take();
    let messages = tokio::spawn(async move { messages(stderr).await });
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (first, has_ended) = beginning(&mut stdout, kept).await?;
    let running = Running {
        child,
        stdout,
        messages,
        _permit: permit,
    };
    if has_ended {
        return running.end(first.freeze()).await.map(Output::Whole);
    }
    let (sender, receiver) = mpsc::channel(WAITING_PIECES);
    tokio::spawn(running.pass_on(first.freeze(), sender, succeeds_with));
    Ok(Output::Streamed(receiver))
}

/// Reads the beginning of the output. Returns true with it if it is the whole output.
async fn beginning(stdout: &mut ChildStdout, kept: Kept) -> io::Result<(BytesMut, bool)> {
    let mut first = BytesMut::new();
    let deadline = Instant::now().checked_add(kept.time);
    let deadline = deadline.unwrap_or_else(Instant::now);
    while first.len() < kept.bytes {
        let is_empty = first.is_empty();
        first.reserve(PIECE_BYTES);
        let read = stdout.read_buf(&mut first);
        let read = if is_empty {
            read.await?
        } else {
            match timeout_at(deadline, read).await {
                Ok(read) => read?,
                Err(_) => return Ok((first, false)),
            }
        };
        if read == 0 {
            return Ok((first, true));
        }
    }
    Ok((first, false))
}

/// A command that runs.
#[derive(Debug)]
struct Running {
    child: Child,
    stdout: ChildStdout,
    messages: JoinHandle<Vec<Value>>,
    /// One of the commands that may run at once.
    _permit: OwnedSemaphorePermit,
}

impl Running {
    /// Waits for a command whose output has ended.
    async fn end(mut self, stdout: Bytes) -> io::Result<Ended> {
        let status: ExitStatus = self.child.wait().await?;
        Ok(Ended {
            stdout,
            messages: self.messages.await.unwrap_or_default(),
            exit_code: status.code(),
        })
    }

    /// Sends the output until it ends or nobody receives it.
    async fn pass_on(
        mut self,
        first: Bytes,
        sender: mpsc::Sender<io::Result<Bytes>>,
        succeeds_with: impl Fn(i32) -> bool,
    ) {
        let mut piece = first;
        while !piece.is_empty() {
            if sender.send(Ok(piece)).await.is_err() {
                return;
            }
            let mut next = BytesMut::with_capacity(PIECE_BYTES);
            let read = tokio::select! {
                read = self.stdout.read_buf(&mut next) => read,
                () = sender.closed() => return,
            };
            if let Err(error) = read {
                let _ = sender.send(Err(error)).await;
                return;
            }
            piece = next.freeze();
        }
        let ended = self.end(Bytes::new()).await;
        let code = ended.as_ref().ok().and_then(|ended| ended.exit_code);
        if !code.is_some_and(succeeds_with) {
            let _ = sender
                .send(Err(io::Error::other("the command failed")))
                .await;
        }
    }
}

/// Reads the errors and warnings that a command prints, one JSON object per line.
async fn messages(stderr: Option<impl AsyncRead + Unpin>) -> Vec<Value> {
    let Some(stderr) = stderr else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    let mut limited = stderr.take(MAX_MESSAGE_BYTES);
    let _ = limited.read_to_end(&mut kept).await;
    // The rest is read so that the command does not wait.
    let _ = tokio::io::copy(&mut limited.into_inner(), &mut tokio::io::sink()).await;
    parsed(&kept)
}

fn parsed(text: &[u8]) -> Vec<Value> {
    let lines = text.split(|&byte| byte == b'\n');
    let objects = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let is_message = |it: &Value| it.get("error").is_some() || it.get("warning").is_some();
    objects.filter(is_message).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    async fn shell(script: &str) -> Output {
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let words = ["-c".into(), script.into()];
        let input = Bytes::from_static(b"the input");
        run(
            Path::new("/bin/sh"),
            &words,
            input,
            Kept::BEGINNING,
            |code| code == 0,
            permit,
        )
        .await
        .unwrap()
    }

    async fn streamed(script: &str) -> (Vec<u8>, bool) {
        let Output::Streamed(mut receiver) = shell(script).await else {
            panic!("{script}: has ended");
        };
        let mut all = Vec::new();
        while let Some(piece) = receiver.recv().await {
            match piece {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(_) => return (all, false),
            }
        }
        (all, true)
    }

    #[tokio::test]
    async fn short_output_comes_with_the_exit_code() {
        let script = r#"cat; echo '{"error":{}}' >&2; echo noise >&2; exit 3"#;
        let Output::Whole(ended) = shell(script).await else {
            panic!("streamed");
        };
        assert_eq!(&ended.stdout[..], b"the input");
        assert_eq!(ended.messages.len(), 1);
        assert_eq!(ended.exit_code, Some(3));
    }

    #[tokio::test]
    async fn long_and_slow_output_is_streamed() {
        let long = "head -c 1000000 /dev/zero";
        assert_eq!(streamed(long).await, (vec![0; 1_000_000], true));
        let slow = "echo first; sleep 1; echo second";
        assert_eq!(streamed(slow).await, (b"first\nsecond\n".to_vec(), true));
        let failing = "head -c 1000000 /dev/zero; exit 1";
        assert_eq!(streamed(failing).await, (vec![0; 1_000_000], false));
    }

    #[tokio::test]
    async fn a_command_without_a_reader_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let script = format!(
            "echo $$ > {}; echo begin; exec sleep 1000",
            pid_file.display()
        );
        drop(shell(&script).await);
        let pid = std::fs::read_to_string(&pid_file).unwrap();
        let process = Path::new("/proc").join(pid.trim()).join("cmdline");
        for _ in 0..100 {
            // A process that has ended has no command line, even before it was waited for.
            if std::fs::read(&process).unwrap_or_default().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} still runs", pid.trim());
    }
}
