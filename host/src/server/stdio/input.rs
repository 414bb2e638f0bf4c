//! Detection of a closed standard input.

/// Returns whether the writing end of standard input is closed, whatever is left to be read.
#[cfg(unix)]
pub(super) fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let input = std::io::stdin();
    // No events are requested: poll(2) always reports HUP and ERR.
    let mut events = [PollFd::new(&input, PollFlags::empty())];
    let polled = poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && events.iter().any(|event| event.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Returns false: the platform does not tell.
#[cfg(not(unix))]
pub(super) fn is_closed() -> bool {
    false
}
