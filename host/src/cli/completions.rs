//! `completions`: shell completion scripts.

use clap::Command;
use clap_complete::Shell;

use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
Examples:
  mcp-host completions bash > ~/.local/share/bash-completion/completions/mcp-host
  mcp-host completions zsh > ~/.zfunc/_mcp-host
  mcp-host completions fish > ~/.config/fish/completions/mcp-host.fish";

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    pub(super) fn run(self, mut command: Command, context: &Context) -> Result<(), CliError> {
        // Into memory first: the generator panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "mcp-host", &mut script);
        let mut output = context.output();
        output.line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(output.flush()?)
    }
}
