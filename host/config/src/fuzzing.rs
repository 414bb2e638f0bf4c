//! Assertions of the fuzz targets for config files and globs.

use std::path::Path;

use super::diagnostics::RenderStyle;
use super::{Config, Environment, UriGlob};

/// Parses a config file, and asserts that an error can be shown. The files that it names do not exist, and there are no
/// environment variables.
pub fn config(text: &str) {
    let nowhere = Path::new("/nonexistent/mcp-host.toml");
    let Err(error) = Config::parse_in(text, nowhere, &Environment::empty()) else { return };
    assert!(!error.diagnostics().is_empty(), "an error says what is wrong");
    let shown = error.render(RenderStyle::Plain);
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\0']), "what is shown is harmless to a terminal: {shown:?}");
}

/// Parses a glob, and matches it.
pub fn glob(text: &str) {
    if let Ok(glob) = text.parse::<UriGlob>() {
        glob.matches(text);
    }
}
