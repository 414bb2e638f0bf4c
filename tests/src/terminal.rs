//! A terminal that a program is started on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::TIMEOUT;

/// Opens a pseudoterminal with this number of columns: our end, and the program's.
pub(crate) fn open_terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let ours = openpt(flags).and_then(|ours| grantpt(&ours).and_then(|()| unlockpt(&ours)).map(|()| ours));
    let ours = ours.expect("a pseudoterminal");
    let theirs = ioctl_tiocgptpeer(&ours, flags).expect("its other end");
    let size = Winsize { ws_row: 30, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).expect("a terminal has a size");
    (ours, theirs)
}

/// A terminal: what a program wrote to it, and its keyboard.
#[derive(Debug)]
pub(crate) struct Terminal {
    keyboard: File,
    /// The other end, which keeps the terminal and its mode when the program ends.
    theirs: OwnedFd,
    /// The mode of a new terminal.
    mode: Termios,
    written: watch::Receiver<String>,
}

impl Terminal {
    /// Opens a terminal of 100 columns and 30 lines.
    pub(crate) fn open() -> Self {
        let (ours, theirs) = open_terminal(100);
        let mode = tcgetattr(&theirs).expect("a terminal has a mode");
        let keyboard = File::from(ours.try_clone().expect("it can be duplicated"));
        let (sender, written) = watch::channel(String::new());
        std::thread::spawn(move || {
            let (mut screen, mut buffer, mut bytes) = (File::from(ours), [0; 4096], Vec::new());
            // A terminal whose last writer is gone is a read error.
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..length]);
                // The last character may not be complete yet.
                sender.send_replace(String::from_utf8_lossy(&bytes).into_owned());
            }
        });
        Self { keyboard, theirs, mode, written }
    }

    /// The end of a program, for one of its streams.
    pub(crate) fn stream(&self) -> OwnedFd {
        self.theirs.try_clone().expect("it can be duplicated")
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until that text is written behind the position `from`, and returns the position behind it.
    pub(crate) async fn wait_for(&self, from: usize, wanted: &str) -> usize {
        let mut written = self.written.clone();
        let end = |text: &String| Some(from + text.get(from..)?.find(wanted)? + wanted.len());
        let found = timeout(TIMEOUT, written.wait_for(|text| end(text).is_some())).await;
        match found {
            Ok(Ok(text)) => end(&text).unwrap_or_default(),
            _ => panic!("it did not write {wanted:?} behind {from}, but:\n{}", self.text()),
        }
    }

    /// Everything that was written.
    pub(crate) fn text(&self) -> String {
        self.written.borrow().clone()
    }

    /// Sets the mode of a new terminal, as a shell does when a program was stopped.
    pub(crate) fn reset(&self) {
        tcsetattr(&self.theirs, OptionalActions::Now, &self.mode).expect("a terminal takes a mode");
    }

    /// Whether input is by line and with an echo, as a shell sets it for programs.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.theirs).expect("a terminal has a mode").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}
