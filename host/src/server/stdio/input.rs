//! Whether there is still anyone at the other end of standard input.

/// Whether nobody can write to it any more, whatever is left to be read.
#[cfg(unix)]
pub(super) fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let input = std::io::stdin();
    // Nothing is asked for: that it was hung up is said anyway.
    let mut events = [PollFd::new(&input, PollFlags::empty())];
    let polled = poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && events.iter().any(|event| event.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// It is not known.
#[cfg(not(unix))]
pub(super) fn is_closed() -> bool {
    false
}
