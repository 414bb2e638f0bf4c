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
        // Into memory first: the generator panics if a write fails.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "mcp-host", &mut script);
        let mut script = String::from_utf8_lossy(&script).into_owned();
        if self.shell == Shell::Bash {
            script = with_consistent_labels(&script);
        }
        let mut output = context.output();
        output.line(script.trim_end())?;
        Ok(output.flush()?)
    }
}

/// Corrects a bash script for a program whose name has a hyphen. clap_complete labels the state of a command
/// `mcp__host__subcmd__serve` where the command is entered, and `mcp__subcmd__host__subcmd__serve` where its options
/// are, so only the top level is completed (clap-rs/clap, issues #6421 and #6529). A script without this defect is
/// unchanged.
fn with_consistent_labels(script: &str) -> String {
    script.replace("mcp__subcmd__host", "mcp__host")
}
