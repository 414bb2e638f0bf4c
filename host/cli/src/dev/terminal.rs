//! The terminal, while keys are read from it.
//!
//! Input is read by key, without an echo ("cbreak" mode). Output stays as it is, because the log and the status line are written by
//! the thread of standard error; and signals stay as well, so that Ctrl-C and Ctrl-Z work even if this process hangs. The mode
//! is restored when [`Terminal`] is dropped, also by a panic, and by [`Restore`] where the process exits otherwise.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::thread;

use crossterm::event::{Event, KeyEvent, KeyEventKind};
use parking_lot::Mutex;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// The keys that wait to be handled.
const MAX_KEYS: usize = 64;

/// The terminal in the mode for keys.
#[derive(Debug)]
pub(super) struct Terminal {
    restore: Restore,
    keys: mpsc::Receiver<Key>,
}

/// What comes from the terminal.
#[derive(Debug)]
pub(super) enum Key {
    Pressed(KeyEvent),
    /// Text that was pasted, or a change of size: the status line is drawn anew.
    Resized,
}

/// Restores the mode of before, once.
#[derive(Clone, Debug)]
pub(super) struct Restore(Arc<Mutex<Option<Termios>>>);

impl Restore {
    /// Restores the mode of before.
    pub(super) fn now(&self) {
        if let Some(original) = self.0.lock().take() {
            // There is nowhere to report that the terminal is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &original);
        }
    }
}

impl Terminal {
    /// Reads keys from now on. None without a terminal: then there are no keys.
    ///
    /// # Errors
    ///
    /// The terminal does not take the mode, or there is no thread.
    pub(super) fn enter() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        let original = tcgetattr(io::stdin())?;
        let restore = Restore(Arc::new(Mutex::new(Some(original.clone()))));
        set_mode(original)?;
        let (sender, keys) = mpsc::channel(MAX_KEYS);
        // From here on a fault restores the mode.
        let terminal = Self { restore, keys };
        thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&sender))?;
        Ok(Some(terminal))
    }

    /// Waits for the next key. Cancel-safe.
    pub(super) async fn next(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            // The terminal is gone, of which SIGHUP tells as well.
            None => std::future::pending().await,
        }
    }

    /// Sets the mode again, after the process was stopped: the shell has set its own meanwhile.
    pub(super) fn resume(&self) {
        if let Some(original) = self.restore.0.lock().clone() {
            let _ = set_mode(original);
        }
    }

    /// Returns what restores the mode of before.
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

/// Reads keys until nobody takes them. Nothing else ends it: a thread cannot be woken from a read.
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
