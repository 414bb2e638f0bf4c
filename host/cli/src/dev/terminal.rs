//! The terminal in key mode.
//!
//! Input is read by key, without an echo ("cbreak" mode). Output keeps its mode, because the thread of standard error
//! writes the log and the status line. Signals stay enabled, so Ctrl-C and Ctrl-Z work even if this process hangs.
//! Dropping [`Terminal`] restores the mode, also in a panic; [`Restore`] does so where the process exits without a
//! drop.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::thread;

use crossterm::event::{Event, KeyEvent, KeyEventKind};
use parking_lot::Mutex;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// The maximum number of queued keys.
const MAX_KEYS: usize = 64;

/// The terminal in key mode.
#[derive(Debug)]
pub(super) struct Terminal {
    restore: Restore,
    keys: mpsc::Receiver<Key>,
}

/// An input event of the terminal.
#[derive(Debug)]
pub(super) enum Key {
    Pressed(KeyEvent),
    /// Pasted text, or a change of size: the status line is drawn again.
    Resized,
}

/// Restores the original mode, once.
#[derive(Clone, Debug)]
pub(super) struct Restore(Arc<Mutex<Option<Termios>>>);

impl Restore {
    /// Restores the original mode.
    pub(super) fn now(&self) {
        if let Some(original) = self.0.lock().take() {
            // The terminal may be gone; there is no place to report this.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &original);
        }
    }
}

impl Terminal {
    /// Starts to read keys. `None` without a terminal.
    ///
    /// # Errors
    ///
    /// The terminal rejects the mode, or the thread cannot be started.
    pub(super) fn enter() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        let original = tcgetattr(io::stdin())?;
        let restore = Restore(Arc::new(Mutex::new(Some(original.clone()))));
        set_mode(original)?;
        let (sender, keys) = mpsc::channel(MAX_KEYS);
        // From here on an error restores the mode.
        let terminal = Self { restore, keys };
        thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&sender))?;
        Ok(Some(terminal))
    }

    /// Waits for the next key. Cancel-safe.
    pub(super) async fn next(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            // The terminal is gone. The process receives SIGHUP, too.
            None => std::future::pending().await,
        }
    }

    /// Sets key mode again after a stop of the process: the shell has changed the mode meanwhile.
    pub(super) fn resume(&self) {
        if let Some(original) = self.restore.0.lock().clone() {
            let _ = set_mode(original);
        }
    }

    /// Returns a handle that restores the original mode.
    pub(super) fn restore(&self) -> Restore {
        self.restore.clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.restore.now();
    }
}

fn set_mode(mut mode: Termios) -> io::Result<()> {
    mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    Ok(tcsetattr(io::stdin(), OptionalActions::Now, &mode)?)
}

/// Reads keys until the receiver is dropped. A thread cannot be woken from a read, so nothing else ends it.
fn read_keys(keys: &mpsc::Sender<Key>) {
    loop {
        let key = match crossterm::event::read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => Key::Pressed(key),
            Ok(Event::Resize(..)) => Key::Resized,
            Ok(_) => continue,
            Err(_) => return,
        };
        if keys.blocking_send(key).is_err() {
            return;
        }
    }
}
