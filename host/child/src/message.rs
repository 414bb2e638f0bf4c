//! The messages between the host, the launcher and the supervisors of programs: a length, JSON, and
//! descriptors.
//!
//! All of these processes run the same version of this crate, so the messages have no version number. They use
//! a stream socket, because a confined host may not create pairs of other sockets.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::kernel::Lack;

/// The maximum length of a message in bytes.
const MAX_LENGTH: u32 = 8 << 20;
/// The maximum number of descriptors with a message.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

/// A message of a supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The program is running. If it has a proxy, a descriptor comes with the message: a listening socket in
    /// its network.
    Started {
        /// The parts of the sandbox that are missing.
        lacks: Vec<Lack>,
        /// The id of its process, or of the init of its processes.
        process: i32,
    },
    /// The program is not running, with the reason.
    Failed(String),
    /// The processes of the running program were measured. Not sent while the host does not read.
    Measured(Measured),
    /// All of its processes have ended.
    Ended(Outcome),
}

/// The current resource use of a program's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// Resident memory that is not backed by a file, and page tables, in bytes.
    pub memory: u64,
    /// Processor time since the start, including ended processes.
    pub cpu: Duration,
    /// The number of processes and threads.
    pub tasks: u64,
}

/// The end of a program, and its resource use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// Why it ended.
    pub reason: EndReason,
    /// The processor time of all of its processes.
    pub cpu: Duration,
    /// The peak of resident memory in bytes.
    pub memory: u64,
}

/// Why a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EndReason {
    /// It exited with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was killed because it exceeded its memory limit.
    Memory,
    /// It was killed because it exceeded its limit of processor time.
    Cpu,
    /// It was killed because it had too many watches of epoll.
    Watches,
    /// It was killed because the host requested it.
    Killed,
    /// Its supervisor ended without a message: it was killed, and all processes of the program with it.
    Lost,
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "it exited with code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal} ended it"),
            Self::Memory => f.write_str("it was killed above `limits.memory`"),
            Self::Cpu => f.write_str("it was killed above `limits.program-cpu`"),
            Self::Watches => f.write_str("it was killed because it watched too many descriptors (`epoll`)"),
            Self::Killed => f.write_str("the host ended it"),
            Self::Lost => f.write_str("its supervisor was killed"),
        }
    }
}

/// Encodes a message, after its length.
pub(crate) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).ok().filter(|length| *length <= MAX_LENGTH);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(json);
    Ok(bytes)
}

/// Returns the length of the message after these four bytes.
pub(crate) fn length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = Some(u32::from_le_bytes(prefix)).filter(|length| *length <= MAX_LENGTH);
    length.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| io::Error::other("the message is too long"))
}

/// Sends a message, with descriptors.
pub(crate) fn send(stream: &UnixStream, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = frame(message)?;
    let (first, rest) = bytes.split_at_checked(1).ok_or(io::ErrorKind::InvalidData)?;
    send_with(stream, first, descriptors, SendFlags::empty())?;
    (&mut &*stream).write_all(rest)
}

/// Sends a short message if the other end has room for it. The kernel accepts all of its bytes or none.
pub(crate) fn offer(stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    send_with(stream, &frame(message)?, &[], SendFlags::DONTWAIT)
}

/// Receives a message, with its descriptors. None at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut prefix = [0; 4];
    let [first, rest @ ..] = &mut prefix;
    let Some(descriptors) = receive_with(stream, first, RecvFlags::empty())? else { return Ok(None) };
    (&mut &*stream).read_exact(rest)?;
    let mut json = vec![0; length(prefix)?];
    (&mut &*stream).read_exact(&mut json)?;
    Ok(Some((serde_json::from_slice(&json)?, descriptors)))
}

/// Sends bytes. The first arrives with the descriptors. A single byte is sent as a whole or not at all.
pub(crate) fn send_with(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags | SendFlags::NOSIGNAL) {
            Ok(sent) if sent == bytes.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one byte, with its descriptors. None at the end of the stream.
pub(crate) fn receive_with(socket: impl AsFd, byte: &mut u8, flags: RecvFlags) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let buffer = std::slice::from_mut(byte);
        match recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    Ok((received.bytes > 0).then_some(descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptors_and_the_end_is_none() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(&one, &Answer::Failed("x".repeat(10_000)), &[writer.as_fd()]).unwrap();
        drop((one, writer));
        let (answer, descriptors) = receive::<Answer>(&other).unwrap().unwrap();
        assert!(matches!(answer, Answer::Failed(text) if text.len() == 10_000));
        let [writer] = <[OwnedFd; 1]>::try_from(descriptors).unwrap();
        std::io::PipeWriter::from(writer).write_all(b"y").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "y");
        assert!(receive::<Answer>(&other).unwrap().is_none());
    }

    #[test]
    fn a_message_that_is_too_long_is_no_allocation() {
        assert!(length(u32::MAX.to_le_bytes()).is_err());
        assert_eq!(length(5_u32.to_le_bytes()).unwrap(), 5);
    }
}
