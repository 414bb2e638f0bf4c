//! The browser of `serve --open` and `admin open`.
//!
//! A confined process such as `serve` cannot start other programs. So a shell is started before the confinement, and
//! waits for the address. The address contains a login code: a pipe and a private file pass it on, because other users
//! can read the arguments of a process. The file is removed when the code has expired. Without a desktop no browser is
//! started, and the address is only printed.

use std::io::Write as _;
use std::process::{ChildStdin, Command, Stdio};

use mcp_host_server::LoginCodes;

use super::context::Context;
use super::messages::Messages;

/// The program that opens a file with the user's application for it.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Waits in the background for a line with the address, makes a page that redirects to the address, and opens the page.
/// The shell itself ends immediately.
const WAIT_AND_OPEN: &str = r#"exec 3<&0
{
  umask 077
  IFS= read -r address <&3 && folder=$(mktemp -d) || exit
  printf '<meta http-equiv="refresh" content="0;url=%s">\n' "$address" >"$folder/console.html"
  "$0" "$folder/console.html"
  sleep 60
  rm -r "$folder"
} &"#;

/// The shell that waits for an address; `None` without a desktop.
#[derive(Debug, Default)]
pub(super) struct Browser(Option<ChildStdin>);

impl Browser {
    /// Starts the shell if there is a desktop. If the start fails, the address is only printed.
    pub(super) fn prepare() -> Self {
        let has_desktop = cfg!(target_os = "macos")
            || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
        if !(cfg!(unix) && has_desktop) {
            return Self(None);
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", WAIT_AND_OPEN, OPENER]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = shell.spawn().and_then(|mut shell| {
            let pipe = shell.stdin.take();
            shell.wait()?;
            Ok(pipe)
        });
        Self(started.unwrap_or_default())
    }

    /// Prints the address of the console with a login code, and opens it.
    pub(super) fn open_console(&mut self, console: Option<&str>, codes: &LoginCodes, context: &Context) {
        let Some(console) = console else {
            context.messages.note(
                "a browser does not reach a Unix socket: with `listen = \"127.0.0.1:9464\"` under `[admin]` there is a console",
            );
            return;
        };
        if let Some(address) = print_address(console, codes, &context.messages) {
            self.open(&address);
        }
    }

    /// Opens an address, if there is a desktop.
    pub(super) fn open(&mut self, address: &str) {
        if let Some(mut shell) = self.0.take() {
            // On an error the printed address remains.
            let _ = writeln!(shell, "{address}");
        }
    }
}

/// Prints the address of the console with a login code, and returns it. `None` if the system supplies no randomness.
pub(super) fn print_address(console: &str, codes: &LoginCodes, messages: &Messages) -> Option<String> {
    let address = format!("{console}#code={}", codes.issue()?);
    messages.console(&address);
    Some(address)
}
