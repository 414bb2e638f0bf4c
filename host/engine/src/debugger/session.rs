//! One connection of a debugger, from its first packet to its end.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::{GdbStubStateMachine, GdbStubStateMachineInner, state::Running};
use gdbstub::stub::{GdbStub, GdbStubError, MultiThreadStopReason};
use gdbstub_arch::wasm::reg::id::WasmRegId;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::target::GuestTarget;
use super::{Shared, Stop, StopReason};

type Machine = GdbStubStateMachine<'static, GuestTarget, ReplyBuffer>;

/// Why a connection ended, other than by its debugger.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// A packet is not one of the protocol.
    #[error("{0}")]
    Protocol(#[from] GdbStubError<Infallible, io::Error>),
}

/// One connection.
pub(super) struct Session {
    /// Buffered, because the protocol is parsed byte by byte.
    packets: BufReader<OwnedReadHalf>,
    replies: OwnedWriteHalf,
    stops: mpsc::Receiver<Stop>,
    target: GuestTarget,
    shared: Arc<Shared>,
}

/// Replies that are not written to the connection yet.
#[derive(Default)]
struct ReplyBuffer(Vec<u8>);

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.breakpoints.lock().clear();
        *self.shared.attached.lock() = None;
        self.shared.is_interrupted.store(false, Ordering::SeqCst);
    }
}

impl Connection for ReplyBuffer {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> Result<(), io::Error> {
        self.0.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), io::Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

impl Session {
    /// Serves a debugger until it disconnects. Then all guests continue, without breakpoints.
    pub(super) async fn run(shared: Arc<Shared>, connection: TcpStream) -> Result<(), SessionError> {
        connection.set_nodelay(true)?;
        let (packets, replies) = connection.into_split();
        let (attached, stops) = mpsc::channel(1);
        *shared.attached.lock() = Some(attached);
        let target = GuestTarget::new(shared.clone());
        Self { packets: BufReader::new(packets), replies, stops, target, shared }.serve().await
    }

    async fn serve(&mut self) -> Result<(), SessionError> {
        // The protocol begins with a stopped guest.
        self.shared.interrupt();
        let Some(stop) = next_stop(&mut self.stops, &self.shared).await else { return Ok(()) };
        self.target.stop(&stop);
        let mut machine = GdbStub::new(ReplyBuffer::default()).run_state_machine(&mut self.target)?;
        loop {
            machine = match machine {
                GdbStubStateMachine::Idle(mut inner) => {
                    self.flush(inner.borrow_conn()).await?;
                    let Some(byte) = packet_byte(&mut self.packets).await? else { return Ok(()) };
                    inner.incoming_data(&mut self.target, byte)?
                }
                GdbStubStateMachine::Running(mut inner) => {
                    self.flush(inner.borrow_conn()).await?;
                    tokio::select! {
                        Some(stop) = next_stop(&mut self.stops, &self.shared) => self.report(&stop, inner)?,
                        byte = packet_byte(&mut self.packets) => {
                            let Some(byte) = byte? else { return Ok(()) };
                            inner.incoming_data(&mut self.target, byte)?
                        }
                    }
                }
                GdbStubStateMachine::CtrlCInterrupt(inner) => {
                    // The stop of a guest is the answer.
                    self.shared.interrupt();
                    inner.interrupt_handled(&mut self.target, None::<MultiThreadStopReason<u64>>)?
                }
                GdbStubStateMachine::Disconnected(mut inner) => {
                    self.flush(inner.borrow_conn()).await?;
                    return Ok(());
                }
            };
        }
    }

    /// Reports that a guest has stopped. LLDB needs the program counter in the same packet.
    fn report(
        &mut self,
        stop: &Stop,
        inner: GdbStubStateMachineInner<'static, Running, GuestTarget, ReplyBuffer>,
    ) -> Result<Machine, SessionError> {
        let reason = self.target.stop(stop);
        let pc = self.target.pc().to_le_bytes();
        let mut registers = std::iter::once((WasmRegId::Pc, pc.as_slice()));
        Ok(inner.report_stop_with_regs(&mut self.target, reason, &mut registers)?)
    }

    async fn flush(&mut self, buffer: &mut ReplyBuffer) -> io::Result<()> {
        self.replies.write_all(&std::mem::take(&mut buffer.0)).await
    }
}

/// Waits for a guest that has stopped. An interrupt has its answer then, whatever stopped the guest.
async fn next_stop(stops: &mut mpsc::Receiver<Stop>, shared: &Shared) -> Option<Stop> {
    loop {
        let stop = stops.recv().await?;
        if !stop.commands.is_closed() {
            shared.is_interrupted.store(false, Ordering::SeqCst);
            return Some(stop);
        }
        // Its call has ended, because its client is gone. Another guest answers the interrupt.
        if stop.reason == StopReason::Interrupt {
            shared.interrupt();
        }
    }
}

/// Reads one byte; none at the end of the connection.
async fn packet_byte(packets: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<u8>> {
    match packets.read_u8().await {
        Ok(byte) => Ok(Some(byte)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_whose_call_has_ended_is_not_reported_and_leaves_an_interrupt_to_another_guest() {
        let shared = Shared::default();
        let (attached, mut stops) = mpsc::channel(2);
        let stop = |reason| {
            let (commands, received) = mpsc::unbounded_channel();
            assert!(attached.try_send(Stop { reason, commands }).is_ok());
            received
        };
        drop(stop(StopReason::Interrupt));
        let running = stop(StopReason::Breakpoint);
        let reported = next_stop(&mut stops, &shared).await.unwrap();
        assert_eq!(reported.reason, StopReason::Breakpoint);
        assert!(!shared.is_interrupted.load(Ordering::SeqCst), "it is answered");
        drop(running);

        drop(stop(StopReason::Interrupt));
        drop(attached);
        assert!(next_stop(&mut stops, &shared).await.is_none());
        assert!(shared.is_interrupted.load(Ordering::SeqCst), "it is not answered");
    }
}
