//! The conformance test of the key `t`: does the component of the last build keep the contract?

use std::time::Instant;

use mcp_host_config as config;
use mcp_host_devkit::conformance::{self, Options};
use mcp_resource_host::host::HostBuilder;

use super::format_elapsed;
use crate::error::CliError;
use crate::messages::Messages;
use crate::output::{Destination, Output};
use crate::test::report;

/// Tests the provider of a plugin with its grants, and prints a summary and the failed checks.
pub(super) async fn test(builder: HostBuilder, plugin: &config::Plugin, messages: &Messages) {
    let began = Instant::now();
    let report = match conformance::run(builder, plugin, Options::new()).await {
        Ok(report) => report,
        Err(error) => {
            messages.error(&format!("plugin `{}` cannot be tested: {error}", plugin.name));
            return;
        }
    };
    let mut failures = Vec::new();
    let mut output = Output::to(&mut failures, Destination::Terminal).colored(messages.is_colored());
    let printed = report::print_failures(&report, &mut output).and_then(|()| Ok::<(), CliError>(output.flush()?));
    drop(output);
    let summary = format!("{}: {}, {}", plugin.name, report::summary(&report), format_elapsed(began.elapsed()));
    let color = if report.passed() { super::GOOD } else { super::BAD };
    messages.labeled("test", color, &summary);
    match printed {
        Ok(()) => messages.print_lines(&String::from_utf8_lossy(&failures)),
        Err(error) => messages.error(&error.to_string()),
    }
}
