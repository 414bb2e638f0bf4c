//! A running program.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use rustix::net::RecvFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::kernel::Lack;
use crate::message::{Answer, EndReason, Measured, Outcome, frame, length, receive_with};
use crate::proxy::Proxy;

/// The maximum length of a line of standard error. The rest of a longer line is skipped.
const MAX_LINE: usize = 4096;

/// A running program, with its streams. When this is dropped, all of its processes are killed.
#[derive(Debug)]
pub struct Child {
    /// Its standard input. A server over stdio ends when this is dropped.
    pub stdin: Option<pipe::Sender>,
    /// Its standard output.
    pub stdout: Option<pipe::Receiver>,
    /// Its standard error. It must be read, because the program blocks once the pipe is full.
    pub stderr: Option<StderrLines>,
    connection: Connection,
    lacks: Vec<Lack>,
    outcome: Option<Outcome>,
    /// The id of its process.
    process: i32,
    /// The last measurement of its processes.
    measured: Measured,
    /// Its proxy, which ends with it.
    proxy: Option<Proxy>,
}

impl Child {
    pub(crate) fn new(
        connection: Connection,
        streams: (OwnedFd, OwnedFd, OwnedFd),
        proxy: Option<Proxy>,
        lacks: Vec<Lack>,
        process: i32,
    ) -> io::Result<Self> {
        let (stdin, stdout, stderr) = streams;
        Ok(Self {
            stdin: Some(pipe::Sender::from_owned_fd(stdin)?),
            stdout: Some(pipe::Receiver::from_owned_fd(stdout)?),
            stderr: Some(StderrLines {
                pipe: pipe::Receiver::from_owned_fd(stderr)?,
                buffer: Vec::new(),
                is_skipping: false,
            }),
            connection,
            lacks,
            outcome: None,
            process,
            measured: Measured::default(),
            proxy,
        })
    }

    /// Returns the parts of the sandbox that are missing.
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// Returns the connections that the program's proxy refused since the last call, with their reasons: no duplicates,
    /// and at most 16 per minute.
    pub fn take_refused_connections(&self) -> Vec<String> {
        self.proxy.as_ref().map(Proxy::take_refused).unwrap_or_default()
    }

    /// Waits until all of its processes have ended. Cancel-safe.
    pub async fn wait(&mut self) -> Outcome {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let outcome = loop {
            match self.connection.receive().await {
                Ok(Some((Answer::Measured(measured), _))) => self.measured = measured,
                Ok(Some((Answer::Ended(outcome), _))) => break outcome,
                _ => break Outcome { reason: EndReason::Lost, cpu: Duration::ZERO, memory: 0 },
            }
        };
        self.outcome.insert(outcome).clone()
    }

    /// Returns the last measurement of all of its processes: one per second while [`wait`](Self::wait) is awaited.
    /// Zero before the first.
    pub fn measured(&self) -> Measured {
        self.measured
    }

    /// Returns the id of its process as the host sees it. In a sandbox with namespaces, this is the id of the init of
    /// its processes.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// Kills all of its processes, and waits until they have ended.
    pub async fn kill(&mut self) -> Outcome {
        self.connection.shut_down();
        self.wait().await
    }
}

/// The lines of a program's standard error.
#[derive(Debug)]
pub struct StderrLines {
    pipe: pipe::Receiver,
    buffer: Vec<u8>,
    is_skipping: bool,
}

impl StderrLines {
    /// Returns the pipe, for another reader. The part of the next line that has been read is lost.
    pub fn into_pipe(self) -> pipe::Receiver {
        self.pipe
    }

    /// Returns the next line without its end. Invalid UTF-8 is replaced. A line longer than 4 KiB is truncated, with
    /// `…` as its last character. None at the end. Cancel-safe.
    pub async fn next_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end.saturating_add(1));
                let line = std::mem::replace(&mut self.buffer, rest);
                if !std::mem::take(&mut self.is_skipping) {
                    return Some(text(line.strip_suffix(b"\n").unwrap_or(&line)));
                }
                continue;
            }
            if self.is_skipping {
                self.buffer.clear();
            } else if self.buffer.len() >= MAX_LINE {
                self.is_skipping = true;
                let mut line = text(&std::mem::take(&mut self.buffer));
                line.push('…');
                return Some(line);
            }
            self.buffer.reserve(MAX_LINE);
            if !matches!(self.pipe.read_buf(&mut self.buffer).await, Ok(1..)) {
                let line = std::mem::take(&mut self.buffer);
                return (!line.is_empty() && !self.is_skipping).then(|| text(&line));
            }
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
}

/// The connection to the supervisor of a program. The supervisor kills the program when the connection is closed.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    /// The received part of the next message, so that dropping a future loses nothing.
    received: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Connection {
    pub(crate) fn new(stream: StdUnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream: UnixStream::from_std(stream)?, received: Vec::new(), descriptors: Vec::new() })
    }

    pub(crate) async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.stream.write_all(&frame(message)?).await
    }

    /// Receives a message, with its descriptors. None at the end.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        loop {
            let mut wanted = size_of::<u32>();
            if let Some(prefix) = self.received.first_chunk() {
                wanted = wanted.saturating_add(length(*prefix)?);
                if self.received.len() == wanted {
                    let message = serde_json::from_slice(self.received.get(size_of::<u32>()..).unwrap_or_default())?;
                    self.received.clear();
                    return Ok(Some((message, std::mem::take(&mut self.descriptors))));
                }
            }
            if self.received.is_empty() {
                // Descriptors arrive with the first byte.
                let mut byte = 0;
                self.stream.readable().await?;
                let received = self
                    .stream
                    .try_io(Interest::READABLE, || receive_with(&self.stream, &mut byte, RecvFlags::empty()));
                match received {
                    Ok(None) => return Ok(None),
                    Ok(Some(descriptors)) => {
                        self.received.push(byte);
                        self.descriptors = descriptors;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                continue;
            }
            let missing = u64::try_from(wanted.saturating_sub(self.received.len())).unwrap_or(u64::MAX);
            if (&mut self.stream).take(missing).read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Closes the sending direction, which requests the supervisor to kill the program.
    fn shut_down(&self) {
        // A supervisor that has ended needs no request.
        let _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
    }
}
