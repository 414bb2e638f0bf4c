//! `profile`: a CPU profile of a plugin of a running server. The profiles are [the devkit's](mcp_host_devkit::profile).

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_devkit::profile::Profile;
use mcp_host_engine::diagnostics::{CallObserver, CallReport, Sample};
use mcp_host_server::{AdminClient, PluginProfile, Profiler};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
Open the file at https://profiler.firefox.com, which keeps it in the browser. The server, which must have `[admin]` in the config, \
writes a line in its audit log.

Examples:
  mcp-host profile notes --out notes.json                  ten seconds
  mcp-host profile notes --seconds 60 --out notes.json
  mcp-host profile notes --out - | gzip > notes.json.gz";

/// Profile the calls of a plugin of a running server, for Firefox's profiler
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The plugin
    #[arg(value_name = "PLUGIN")]
    plugin: String,

    /// The time, in seconds; 60 at most
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// The file; `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let client = AdminClient::new(&context.admin_config()?)?;
        let plugin = utf8_percent_encode(&self.plugin, NON_ALPHANUMERIC);
        let path = format!("plugins/{plugin}/profile?seconds={}", self.seconds);
        let profile = client.profile(&path, Duration::from_secs(self.seconds)).await?;
        if self.out.as_os_str() == "-" {
            let mut output = context.output();
            output.bytes(&profile)?;
            return Ok(output.flush()?);
        }
        let written = std::fs::File::create(&self.out).and_then(|mut file| file.write_all(&profile));
        written.map_err(|source| CliError::Save { file: self.out.clone(), source })?;
        let file = self.out.display();
        context.messages.note(&format!("open {file} at https://profiler.firefox.com, which keeps it in the browser"));
        Ok(())
    }
}

/// Makes the profiles of a running server.
#[derive(Debug)]
pub(super) struct LiveProfiler;

impl Profiler for LiveProfiler {
    fn begin(&self) -> Arc<dyn PluginProfile> {
        Arc::new(LiveProfile::default())
    }
}

/// A profile of all calls of a plugin, polls included.
#[derive(Debug, Default)]
struct LiveProfile(Mutex<Profile>);

impl CallObserver for LiveProfile {
    fn called(&self, _: CallReport) {}

    fn wants_samples(&self) -> bool {
        true
    }

    fn sampled(&self, sample: Sample<'_>) {
        self.0.lock().add(&sample);
    }
}

impl PluginProfile for LiveProfile {
    fn finish(&self) -> Vec<u8> {
        let mut written = Vec::new();
        // Writing to memory does not fail.
        let _ = self.0.lock().write_firefox(&mut written);
        written
    }
}
