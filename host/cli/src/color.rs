//! Whether a stream is colored: the conventions `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`, and terminals without colors.

use anstream::AutoStream;
use anstream::stream::RawStream;
use clap::ColorChoice;

/// Returns whether output to this stream is colored. `--color always` and `never` override the environment.
pub(super) fn is_colored(choice: ColorChoice, stream: &impl RawStream) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
    }
}
