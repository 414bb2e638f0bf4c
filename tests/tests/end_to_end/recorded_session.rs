//! The picture of a session on the README's first screen equals the program's output on a terminal.
//!
//! After an intended change, run the test with `SNAPSHOTS=overwrite` to write the file.

use std::fmt::Write as _;
use std::path::Path;

use anstyle_svg::Term;
use mcp_host_tests::{Folder, component, type_on_terminal};
use snapbox::assert::{Assert, DEFAULT_ACTION_ENV};
use snapbox::data::DataFormat;
use snapbox::{Data, IntoData};

/// The path of the picture in the repository.
const PICTURE: &str = "docs/pictures/session.svg";

/// The time for which a command and its output are shown before the next one, in seconds.
const PAUSE: f32 = 2.0;

const SESSION: [&str; 5] = [
    "init handbook",
    "list",
    "search deploying",
    "read notes:///deploying.md",
    "explain --as anonymous notes:///deploying.md",
];

/// A file that a provider must not show, and other files.
const FILES: [(&str, &str); 4] = [
    ("handbook/deploying.md", "# Deploying\n\nNo deploying on Fridays: [on call](on-call.md) is short then.\n"),
    ("handbook/on-call.md", "# On call\n\nOne person, one week, one telephone.\n"),
    ("handbook/runbook.md", "# Runbook\n\nBefore deploying: read the log.\n"),
    ("handbook/server.pem", "-----BEGIN PRIVATE KEY-----\n"),
];

/// Returns a command and the final content of the terminal, with escape sequences.
fn frame(command: &str, shown: &str) -> String {
    // Text that was erased or overwritten later, such as progress, is omitted.
    let last = |line: &str, separator: &str| line.rsplit(separator).next().unwrap_or_default().to_owned();
    let lines = shown.lines().map(|line| last(&last(line.trim_end_matches('\r'), "\r"), "\x1b[2K"));
    let shown = lines.collect::<Vec<_>>().join("\n");
    format!("\x1b[1;32m$\x1b[0m \x1b[1mmcp-host {command}\x1b[0m\n{}\n\n", shown.trim_end())
}

/// Draws frames. Each frame appears after the previous ones. A viewer without animations shows all of them.
fn picture(frames: &[String]) -> String {
    let mut delays = Vec::new();
    for (frame, index) in frames.iter().zip(0_u8..) {
        delays.extend(frame.lines().map(|_| f32::from(index) * PAUSE));
    }
    let mut delays = delays.into_iter();
    let term = Term::new().min_width_px(760);
    let mut svg = String::new();
    for line in term.render_svg(frames.concat().trim_end()).lines() {
        let drawn = match line.trim_start().strip_prefix("<tspan x=") {
            Some(rest) => {
                let delay = delays.next().expect("a line of the picture is one of a frame");
                format!("    <tspan class=\"line\" style=\"animation-delay: {delay}s\" x={rest}")
            }
            None => line.to_owned(),
        };
        if line.trim() == "</style>" {
            svg.push_str("    .line { animation: appear 0.01s backwards }\n");
            svg.push_str("    @keyframes appear { from { visibility: hidden } }\n");
            svg.push_str("    @media (prefers-reduced-motion) { .line { animation: none } }\n");
        }
        let _ = writeln!(svg, "{}", drawn.trim_end());
    }
    svg
}

#[tokio::test]
async fn the_session_in_the_readme_is_what_the_program_prints() {
    let folder = Folder::with_files(FILES);
    let plugins = component("notes");
    let mut frames = Vec::new();
    for command in SESSION {
        let mut words: Vec<_> = command.split(' ').collect();
        let plugins = plugins.parent().unwrap().to_str().unwrap();
        // An installed program finds its providers without this option.
        if command.starts_with("init") {
            words.extend(["--plugins", plugins]);
        }
        frames.push(frame(command, &type_on_terminal(folder.path(), &words).await));
    }
    let shown = frames.concat();
    for expected in ["wrote mcp-host.toml", "Deploying", "No deploying on Fridays", "denied"] {
        assert!(shown.contains(expected), "no {expected:?} in:\n{shown}");
    }
    assert!(!shown.contains("server.pem"), "{shown}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PICTURE);
    let expected = Data::read_from(&file, Some(DataFormat::Text)).raw();
    let compared = Assert::new().action_env(DEFAULT_ACTION_ENV).try_eq(None, picture(&frames).into_data(), expected);
    if let Err(error) = compared {
        panic!("{PICTURE} is not what the program prints: {error}");
    }
}
