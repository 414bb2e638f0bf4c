//! The options of a provider: its grants and its config.

use std::path::{Path, PathBuf};

use mcp_host_config as config;
use mcp_host_config::grants::{
    BucketName, DatabaseName, DirGrant, GuestPath, HttpGrant, KeyvalueGrant, Mode, SqlGrant, SqlUrl,
};
use mcp_host_model::net::OriginPattern;

/// What a provider is granted and configured with.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProviderOptions {
    /// Set a key of the provider's config; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    /// Grant a directory, read-only unless `:rw` follows; may be repeated
    #[arg(long = "dir", value_name = "HOST=GUEST[:rw]", value_parser = parse_dir)]
    dirs: Vec<(GuestPath, DirGrant)>,

    /// Grant requests to an origin, such as `https://docs.rs`; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    http: Vec<OriginPattern>,

    /// Grant a key-value bucket; may be repeated
    #[arg(long, value_name = "BUCKET")]
    keyvalue: Vec<BucketName>,

    /// Grant an SQL database, such as `shop=sqlite:shop.db`; may be repeated. A URL with a password belongs in a config
    #[arg(long, value_name = "NAME=URL", value_parser = parse_database)]
    sql: Vec<(DatabaseName, SqlUrl)>,

    /// Start with the grants, the config and the limits of this plugin in the config
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,
}

impl ProviderOptions {
    /// The plugin of the config on which the options build.
    pub(crate) fn plugin_name(&self) -> Option<&str> {
        self.plugin.as_deref()
    }

    /// Adds the grants and the config to a plugin.
    pub(crate) fn apply(&self, mut plugin: config::Plugin) -> config::Plugin {
        plugin.config.extend(self.set.iter().cloned());
        plugin.grants.dirs.extend(self.dirs.iter().cloned());
        plugin.grants.keyvalue.extend(self.keyvalue.iter().map(|name| (name.clone(), KeyvalueGrant::default())));
        plugin.grants.sql.extend(self.sql.iter().map(|(name, url)| (name.clone(), SqlGrant::new(url.clone()))));
        for origin in &self.http {
            // An existing grant for the origin stays: it may have a credential.
            let _ = plugin.grants.http.add(HttpGrant::new(origin.clone()));
        }
        plugin
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, such as `rev=main`".to_owned()),
    }
}

fn parse_database(text: &str) -> Result<(DatabaseName, SqlUrl), String> {
    let (name, url) = text.split_once('=').ok_or("expected NAME=URL, such as `shop=sqlite:shop.db`")?;
    let name = name.parse::<DatabaseName>().map_err(|error| error.to_string())?;
    Ok((name, SqlUrl::parse(url, Path::new("")).map_err(|error| error.to_string())?))
}

fn parse_dir(text: &str) -> Result<(GuestPath, DirGrant), String> {
    let (host, guest) = text.rsplit_once('=').ok_or("expected HOST=GUEST, such as `./data=/data`")?;
    let (guest, mode) = match guest.strip_suffix(":rw") {
        Some(guest) => (guest, Mode::ReadWrite { quota: Default::default() }),
        None => (guest.strip_suffix(":ro").unwrap_or(guest), Mode::ReadOnly),
    };
    let guest: GuestPath =
        guest.parse().map_err(|error| format!("{error}: expected an absolute path, such as `/data`"))?;
    let host = PathBuf::from(host).canonicalize().map_err(|error| format!("the directory `{host}`: {error}"))?;
    if !host.is_dir() {
        return Err(format!("`{}` is not a directory", host.display()));
    }
    Ok((guest, DirGrant { host, mode }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_only_unless_it_is_granted_for_writing() {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().to_str().unwrap();
        for (suffix, writable) in [("", false), (":ro", false), (":rw", true)] {
            let (guest, grant) = parse_dir(&format!("{host}=/data{suffix}")).unwrap();
            assert_eq!((guest.as_str(), matches!(grant.mode, Mode::ReadWrite { .. })), ("/data", writable));
        }
        for wrong in [host.to_owned(), format!("{host}=data"), format!("{host}/missing=/data")] {
            parse_dir(&wrong).unwrap_err();
        }
    }

    #[test]
    fn a_setting_has_a_key_and_its_value_may_have_anything() {
        assert_eq!(parse_setting("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_setting("a").is_err() && parse_setting("=b").is_err());
    }
}
