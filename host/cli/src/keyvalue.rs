//! `keyvalue`: the buckets of plugins, for admins and scripts.
//!
//! The command opens the database in the config's state directory, which a running server may use at the same time, and
//! connects to the NATS servers of `[cluster]` for shared buckets. No plugin is loaded and no component is needed. Only
//! granted buckets are accessible, and quotas apply.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytesize::ByteSize;
use clap::Subcommand;
use mcp_resource_host::config::Config;
use mcp_resource_host::host::{DataDirs, shared_buckets};
use serde_json::{Value, json};

use super::context::Context;
use super::error::CliError;
use super::output::{Destination, Output};
use super::table::{Cell, Table};
use mcp_resource_host::keyvalue::{BucketUsage, MAX_VALUE_BYTES, PluginBuckets};

const EXAMPLES: &str = "\
Examples:
  mcp-host keyvalue list web                            the buckets of the plugin `web`, with their usage
  mcp-host keyvalue list web pages --prefix docs.rs/    keys of the bucket `pages`
  mcp-host keyvalue get web pages docs.rs/serde | jq    the value of a key
  mcp-host keyvalue put web settings language ja        text as a value
  mcp-host keyvalue put web models small < small.bin    standard input as a value
  mcp-host keyvalue delete web pages docs.rs/serde";

/// Show and fill the key-value buckets of plugins
///
/// A server can run at the same time; its plugins see a change at their next call. Only buckets that the config grants
/// exist, and their quotas apply.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: KeyvalueCommand,
}

#[derive(Debug, Subcommand)]
enum KeyvalueCommand {
    /// List the keys of a bucket; without a bucket, the buckets of a plugin
    List {
        /// The plugin
        plugin: String,
        /// The bucket
        bucket: Option<String>,
        /// List only keys with this prefix
        #[arg(long, default_value = "", hide_default_value = true, requires = "bucket")]
        prefix: String,
        /// Print a JSON object; for keys, one per line with an array of up to 1000
        #[arg(long)]
        json: bool,
    },
    /// Print the value of a key
    Get {
        #[command(flatten)]
        place: Place,
        /// The key
        key: String,
        /// Write the value to this file
        #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
        output: Option<PathBuf>,
        /// Print a JSON object, with the value in `text`, or in `base64` if it is not UTF-8
        #[arg(long)]
        json: bool,
    },
    /// Write the value of a key, from the argument, a file, or standard input
    Put {
        #[command(flatten)]
        place: Place,
        /// The key
        key: String,
        /// The value; without it and without `--file`, it is read from standard input
        value: Option<String>,
        /// Read the value from this file
        #[arg(long, short, value_name = "FILE", conflicts_with = "value")]
        file: Option<PathBuf>,
    },
    /// Delete keys: all or none, or one by one in a shared bucket
    Delete {
        #[command(flatten)]
        place: Place,
        /// The keys, at most 1000
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The plugin
    plugin: String,
    /// The bucket
    bucket: String,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let mut output = context.output();
        match self.command {
            KeyvalueCommand::List { plugin, bucket: None, json, .. } => {
                let usage = open(context, &plugin)?.usage().await?;
                if usage.is_empty() {
                    context.messages.note(&format!("the plugin `{plugin}` is granted no bucket (`grants.keyvalue`)"));
                }
                list_buckets(&usage, json, &mut output)?;
            }
            KeyvalueCommand::List { plugin, bucket: Some(bucket), prefix, json } => {
                let buckets = open(context, &plugin)?;
                buckets.list(&bucket, &prefix, |keys| print_keys(&keys, json, &mut output)).await?;
            }
            KeyvalueCommand::Get { place: Place { plugin, bucket }, key, output: file, json } => {
                let value = open(context, &plugin)?.get(&bucket, &key).await?;
                let value = value.ok_or_else(|| CliError::NoKey { plugin, bucket, key: key.clone() })?;
                match file {
                    Some(file) => {
                        return std::fs::write(&file, value).map_err(|source| CliError::Save { file, source });
                    }
                    None => print_value(&key, value, json, &mut output)?,
                }
            }
            KeyvalueCommand::Put { place, key, value, file } => {
                let buckets = open(context, &place.plugin)?;
                let is_given = value.is_some() || file.is_some();
                let value = read_value(value, file)?;
                if value.is_empty() && !is_given {
                    context.messages.note("the value is empty: standard input has no bytes");
                }
                buckets.put(&place.bucket, key, value).await?;
            }
            KeyvalueCommand::Delete { place, keys } => {
                let deleted = open(context, &place.plugin)?.delete(&place.bucket, keys.clone()).await?;
                for key in keys.iter().filter(|key| !deleted.contains(key)) {
                    context.messages.note(&format!("there was no key {}", mcp_host_base::text::quote(key)));
                }
            }
        }
        Ok(output.flush()?)
    }
}

/// Returns the buckets of a plugin of the config.
fn open(context: &Context, name: &str) -> Result<PluginBuckets, CliError> {
    let mut config = context.config_without_secrets()?;
    let plugin_in = |config: &Config| config.plugins.iter().find(|plugin| plugin.name.as_str() == name).cloned();
    let mut plugin = plugin_in(&config).ok_or_else(|| {
        let known = config.plugins.iter().map(|plugin| plugin.name.to_string()).collect();
        CliError::NoPlugin { name: name.to_owned(), known }
    })?;
    let state = DataDirs::of_command(&config.server).state()?;
    let shared = if plugin.grants.keyvalue.values().any(|bucket| bucket.shared) {
        // The servers of the cluster may want credentials.
        config = context.config()?;
        plugin = plugin_in(&config).unwrap_or(plugin);
        shared_buckets(&config)?
    } else {
        None
    };
    Ok(PluginBuckets::new(&plugin, &state, shared.as_deref()))
}

fn list_buckets(usage: &[BucketUsage], as_json: bool, output: &mut Output<'_>) -> Result<(), CliError> {
    if as_json {
        let buckets: Vec<Value> = usage
            .iter()
            .map(|usage| {
                json!({
                    "bucket": usage.name, "keys": usage.keys, "bytes": usage.bytes, "maxKeys": usage.max_keys,
                    "maxBytes": usage.max_bytes,
                })
            })
            .collect();
        return Ok(output.json(&json!({ "buckets": buckets }))?);
    }
    let rows = usage.iter().map(|usage| {
        let used = |used: &str, most: &str| Cell::text(&format!("{used} of {most}"));
        [
            Cell::verbatim(&usage.name),
            used(&usage.keys.to_string(), &usage.max_keys.to_string()),
            used(&ByteSize(usage.bytes).to_string(), &ByteSize(usage.max_bytes).to_string()),
        ]
    });
    Ok(Table::new(["BUCKET", "KEYS", "SIZE"]).print(rows.collect(), output)?)
}

/// Prints keys, one per line. Keys are escaped on a terminal, and where a key would span several lines.
fn print_keys(keys: &[String], as_json: bool, output: &mut Output<'_>) -> Result<(), CliError> {
    if as_json {
        output.json(&json!({ "keys": keys }))?;
    } else {
        keys.iter().try_for_each(|key| output.line(&super::escape::line(key)))?;
    }
    Ok(())
}

/// Prints a value: unchanged to a pipe; on a terminal only text, escaped.
fn print_value(key: &str, value: Vec<u8>, as_json: bool, output: &mut Output<'_>) -> Result<(), CliError> {
    let text = std::str::from_utf8(&value);
    if as_json {
        let value = match text {
            Ok(text) => json!({ "key": key, "text": text }),
            Err(_) => json!({ "key": key, "base64": BASE64_STANDARD.encode(&value) }),
        };
        output.json(&value)?;
        return Ok(());
    }
    match (output.destination(), text) {
        (Destination::Pipe, _) => output.bytes(&value)?,
        (Destination::Terminal, Ok(text)) => output.text(text)?,
        (Destination::Terminal, Err(_)) => {
            let kind_and_size = ByteSize(u64::try_from(value.len()).unwrap_or(u64::MAX)).to_string();
            return Err(CliError::Binary {
                uri: format!("the value of {}", mcp_host_base::text::quote(key)),
                kind_and_size,
            });
        }
    }
    Ok(())
}

/// Reads a value, up to one byte more than the limit of a bucket: the store rejects such a value.
fn read_value(value: Option<String>, file: Option<PathBuf>) -> Result<Vec<u8>, CliError> {
    let most = u64::try_from(MAX_VALUE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    match (value, file) {
        (Some(text), _) => bytes = text.into_bytes(),
        (None, Some(file)) => {
            let read = File::open(&file).and_then(|open| open.take(most).read_to_end(&mut bytes));
            read.map_err(|source| CliError::ValueFile { file, source })?;
        }
        (None, None) => {
            io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(CliError::StandardInput)?;
        }
    }
    Ok(bytes)
}
