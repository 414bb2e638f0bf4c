//! `record`: writes the calls of a plugin of a running server to a file, for [`replay`](super::replay).

use std::path::PathBuf;
use std::time::Duration;

use mcp_host_server::{AdminClient, AdminClientError};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::context::Context;
use super::error::CliError;
use super::recording::{RecordingFile, summary};

const EXAMPLES: &str = "\
The file contains the data that the provider read, and its answers. Only the owner of the file can read it. The server, \
which must have `[admin]` in the config, writes a line in its audit log.

Examples:
  mcp-host record notes --out notes.jsonl              until Ctrl-C, 10,000 calls, or 10 minutes
  mcp-host record notes --out notes.jsonl --max 20     the next 20 calls
  mcp-host replay notes.jsonl                          repeat them";

/// The maximum duration of a recording.
const MAX_TIME: Duration = Duration::from_secs(3000);

/// Record the calls of a plugin of a running server, for `replay`
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The plugin
    #[arg(value_name = "PLUGIN")]
    plugin: String,

    /// The file
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,

    /// End after this number of calls
    #[arg(long, value_name = "CALLS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max: u32,

    /// End after this time: `30s`, `10m`; 50 minutes at most
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = recording_time)]
    time: Duration,
}

fn recording_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok();
    let time = time.filter(|time| (1..=MAX_TIME.as_secs()).contains(&time.as_secs()));
    time.ok_or_else(|| "write a time from 1s to 50m, such as `10m`".to_owned())
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let client = AdminClient::new(&context.admin_config()?)?;
        let file = RecordingFile::create(&self.out)?;
        let plugin = utf8_percent_encode(&self.plugin, NON_ALPHANUMERIC);
        let path = format!("plugins/{plugin}/record?calls={}&seconds={}", self.max, self.time.as_secs());
        // Data arrives in pieces; only whole lines are written.
        let mut begun = Vec::new();
        let mut told = false;
        let receive = |data: &[u8]| {
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                begun.extend_from_slice(part);
                if begun.pop_if(|last| *last == b'\n').is_some() {
                    let line = String::from_utf8_lossy(&begun).into_owned();
                    begun.clear();
                    // The file has its own first and last lines.
                    if !line.starts_with("{\"mcp-host-recording\"") && !file.receive(line) {
                        return Err(CliError::from(AdminClientError::Ended(client.address().clone())));
                    }
                }
            }
            if !std::mem::replace(&mut told, true) {
                context.messages.note(&format!("recording the calls of `{}` until Ctrl-C", self.plugin));
            }
            Ok(())
        };
        let recorded = tokio::select! {
            recorded = client.record(&path, receive) => Some(recorded),
            _ = tokio::signal::ctrl_c() => None,
        };
        // A recording that the server has not completed has no last line, either.
        let end = if matches!(recorded, Some(Ok(()))) { file.finish() } else { file.interrupt() };
        let end = end.map_err(|source| CliError::Save { file: self.out.clone(), source })?;
        recorded.unwrap_or(Ok(()))?;
        context.messages.note(&summary(end, &self.out));
        Ok(())
    }
}
