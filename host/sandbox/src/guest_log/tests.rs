use mcp_host_base::testing::CapturedLog;
use tracing_subscriber::filter::LevelFilter;
use wasmtime_wasi::cli::StdoutStream;

use super::*;

/// Returns the lines in the log after `log`, at this level.
fn capture(level: LevelFilter, log: impl FnOnce()) -> Vec<String> {
    let captured = CapturedLog::default();
    let _capturing = captured.capture(level);
    log();
    captured.lines()
}

fn expected_line(line: &str) -> String {
    format!("INFO {line} plugin=\"a\"")
}

#[test]
fn a_message_is_one_event_a_line_and_is_escaped() {
    let lines = capture(LevelFilter::INFO, || {
        GuestLog::new("a".into(), 1 << 20).message(Level::Info, "", "one\r\n\n\ttwo\u{202e}\u{2028}\u{1b}[2J\nthree");
    });
    assert_eq!(
        lines,
        [expected_line("one"), expected_line("\ttwo\\u{202e}\\u{2028}\\u{1b}[2J"), expected_line("three")]
    );
}

#[test]
fn what_nobody_wants_costs_nothing_of_the_allowance() {
    let lines = capture(LevelFilter::INFO, || {
        let log = GuestLog::new("a".into(), 1024);
        for _ in 0..1000 {
            log.message(Level::Debug, "", &"x".repeat(1000));
        }
        log.message(Level::Info, "", "wanted");
    });
    assert_eq!(lines, [expected_line("wanted")]);
}

#[test]
fn one_line_says_how_much_was_dropped() {
    let lines = capture(LevelFilter::INFO, || {
        let log = GuestLog::new("a".into(), 1024);
        for _ in 0..1000 {
            log.repeated_line(Level::Info, "", &"x".repeat(100), 1);
        }
    });
    assert_eq!(lines.iter().filter(|line| line.contains("xxx")).count(), 10, "{lines:?}");
    let dropped: Vec<_> = lines.iter().filter(|line| line.contains("dropped")).collect();
    assert!(matches!(&dropped[..], [one] if one.contains("lines=1 bytes=100")), "{dropped:?}");
}

#[test]
fn a_warning_that_repeats_is_logged_once_and_anything_else_each_time() {
    let lines = capture(LevelFilter::INFO, || {
        let log = GuestLog::new("a".into(), 1 << 20);
        for level in [Level::Warn, Level::Info, Level::Warn, Level::Info] {
            log.guest_message(level, "", "skipped");
        }
        let log = GuestLog::keeping_last_errors("dev".into(), 1 << 20);
        (0..2).for_each(|_| log.guest_message(Level::Warn, "", "skipped"));
    });
    let levels: Vec<_> = lines.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(levels, ["WARN", "INFO", "INFO", "WARN", "WARN"], "{lines:?}");
}

#[test]
fn a_warning_that_repeats_is_one_recent_line_with_the_sum_of_its_occurrences() {
    let log = GuestLog::new("a".into(), 1 << 20);
    let lines = capture(LevelFilter::INFO, || {
        for times in [1, 17, 2] {
            log.repeated_message(Level::Warn, "", "skipped", times);
        }
    });
    let expected = ["skipped", "skipped (17 times)", "skipped (2 times)"];
    assert_eq!(lines, expected.map(|line| format!("WARN {line} plugin=\"a\"")));
    let recent: Vec<_> = log.recent().into_iter().map(|line| (line.text, line.times)).collect();
    assert_eq!(recent, [("skipped".to_owned(), 20)]);
}

#[test]
fn of_a_message_with_nothing_but_line_feeds_as_much_is_looked_at_as_there_is_allowance() {
    let message = "\n".repeat(10 << 20);
    let log = GuestLog::new("a".into(), 1 << 20);
    let lines = capture(LevelFilter::INFO, || log.message(Level::Info, "", &message));
    assert!(matches!(&lines[..], [one] if one.contains("lines=1 bytes=10485504")), "{lines:?}");
    // Exactly 256 lines of 32 bytes were charged.
    let left = (1 << 20) - 256 * 32;
    assert!(matches!(log.limiter.check_n(NonZeroU32::new(left).unwrap()), Ok(Ok(()))));
}

#[test]
fn a_line_that_is_longer_than_what_is_looked_at_is_the_last_of_its_message() {
    let message = format!("first\n{}\nlast", "x".repeat(10 << 20));
    let lines = capture(LevelFilter::INFO, || {
        GuestLog::new("a".into(), 1 << 20).message(Level::Info, &"c".repeat(1 << 20), &message);
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("INFO first") && lines[0].len() < 200);
    assert!(lines[1].starts_with("INFO xxx") && lines[1].len() < MAX_LINE + 200);
    assert!(lines[2].contains("dropped"));
}

#[test]
fn a_stream_is_cut_into_lines_however_it_is_written() {
    let lines = capture(LevelFilter::TRACE, || {
        let streams = GuestStreams::new(&GuestLog::new("a".into(), 1 << 20));
        let mut stream = streams.stderr.p2_stream();
        for piece in ["one\ntw", "o", "\n\n\nthree\nfo", "ur"] {
            // Each piece is written through a separate handle, as some libraries do.
            stream = streams.stderr.p2_stream();
            stream.write(piece.into()).unwrap();
        }
        assert!(stream.write(vec![b'x'; 1 << 20].into()).is_err());
    });
    let said: Vec<_> = lines.iter().map(|line| line.split(' ').nth(1).unwrap_or_default()).collect();
    assert_eq!(said, ["one", "two", "three", "four"], "{lines:?}");
}
