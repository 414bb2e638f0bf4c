//! A tunnel: bytes in both directions, until both have ended or no byte has moved for some time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::sleep;

/// The size of the buffer for each direction, in bytes.
const BUFFER: usize = 16 << 10;

/// Transports bytes between two streams.
pub(super) async fn tunnel(
    one: impl AsyncRead + AsyncWrite + Unpin,
    other: impl AsyncRead + AsyncWrite + Unpin,
    idle_time: Duration,
) {
    let ((one_read, one_write), (other_read, other_write)) = (split(one), split(other));
    // One direction may be silent for long while the other is not, as in a download. So a byte in either direction counts.
    let moved = AtomicU64::new(0);
    let moved = &moved;
    let both = async {
        let _ = tokio::join!(transport(one_read, other_write, moved), transport(other_read, one_write, moved));
    };
    let idle = async {
        let read = || moved.load(Ordering::Relaxed);
        let mut before = read();
        loop {
            sleep(idle_time).await;
            let now = read();
            if now == before {
                return;
            }
            before = now;
        }
    };
    tokio::select! {
        () = both => {}
        () = idle => {}
    }
}

/// Transports one direction, including its end.
async fn transport(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        moved.fetch_add(1, Ordering::Relaxed);
        match buffer.get(..count) {
            Some(bytes @ [_, ..]) => to.write_all(bytes).await?,
            _ => return to.shutdown().await,
        }
    }
}
