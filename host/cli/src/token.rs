//! `token`: bearer tokens of principals.

use std::io::{self, BufRead as _, Read as _};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Subcommand;
use mcp_host_base::private_dir::random_secret;
use mcp_host_config::TokenDigest;
use serde_json::json;
use zeroize::Zeroizing;

use super::context::Context;
use super::error::CliError;
use super::output::Output;

const EXAMPLES: &str = "\
The config has the digest of a token, never the token:
  [[principal]]
  name = \"ci\"
  token-sha256 = \"…\"

Examples:
  mcp-host token new                       a new token, and its digest
  mcp-host token hash < token.txt          the digest of an existing one";

/// The prefix of a token, which scanners for leaked secrets recognize.
const PREFIX: &str = "mcp_";
/// The minimum length of a token without a warning, in characters: 128 bits are 32 hexadecimal digits, or 22 of Base64.
const MIN_TOKEN: usize = 20;
/// The maximum size of a token on standard input.
const MAX_INPUT: u64 = 64 << 10;

/// Create bearer tokens, and compute their digests for the config
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token, and print it with its digest
    New {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the digest of the token on the first line of standard input
    Hash,
}

impl Args {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let mut output = context.output();
        match self.command {
            TokenCommand::New { json } => print_new(&mut output, json)?,
            TokenCommand::Hash => {
                let token = read_token()?;
                if token.len() < MIN_TOKEN {
                    context.messages.warning(&format!(
                        "a token of {} characters can be found from its digest by brute force; `mcp-host token new` makes one of 256 bits",
                        token.len()
                    ));
                }
                output.line(&TokenDigest::of(&token).to_string())?;
            }
        }
        Ok(output.flush()?)
    }
}

/// A new token of 256 random bits.
pub(super) fn generate() -> Zeroizing<String> {
    let bytes = Zeroizing::new(random_secret());
    Zeroizing::new([PREFIX, &BASE64_URL_SAFE_NO_PAD.encode(bytes.as_slice())].concat())
}

fn print_new(output: &mut Output<'_>, as_json: bool) -> Result<(), CliError> {
    let token = generate();
    let digest = TokenDigest::of(&token).to_string();
    if as_json {
        output.line(&json!({ "token": *token, "token-sha256": digest }).to_string())?;
    } else {
        output.line(&format!("token: {}", *token))?;
        output.line(&format!("token-sha256 = \"{digest}\""))?;
    }
    Ok(())
}

/// The first line of standard input, without the line break.
fn read_token() -> Result<Zeroizing<String>, CliError> {
    let mut line = Zeroizing::new(String::new());
    let read = io::stdin().lock().take(MAX_INPUT).read_line(&mut line).map_err(CliError::StandardInput)?;
    let token = line.trim_end_matches(['\n', '\r']);
    if read == 0 || token.is_empty() {
        return Err(CliError::StandardInput(io::Error::new(io::ErrorKind::UnexpectedEof, "it has no token")));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CliError::NotAToken);
    }
    Ok(Zeroizing::new(token.to_owned()))
}
