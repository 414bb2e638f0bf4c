//! A host with the provider `sizes`, and the requests to it.

use std::fmt;
use std::path::Path;
use std::process::Command;

use mcp_resource_host::config::instances::InstanceReuse;
use mcp_resource_host::config::limits::Limits;
use mcp_resource_host::config::{Config, Plugin};
use mcp_resource_host::plugin::NativePlugin;
use mcp_resource_host::provider::Provider;
use mcp_resource_host::{Host, PluginState};
use tempfile::TempDir;

/// The mount of the resources.
pub(crate) const MOUNT: &str = "sizes:///";
/// The number of resources: several pages.
const COUNT: usize = 1000;
/// The number of entries on a page.
const PAGE: usize = 100;

/// The directories of the host. The state is temporary; compiled components are kept.
pub(crate) struct StateDir {
    state: TempDir,
}

impl StateDir {
    pub(crate) fn new() -> Self {
        Self { state: tempfile::tempdir().expect("a directory for the state") }
    }
}

/// A request that is timed.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Reads one resource.
    Read {
        /// Its URI.
        uri: String,
        /// What it is, for people.
        name: String,
    },
    /// Lists the first page: 100 entries.
    List,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { name, .. } => f.write_str(name),
            Self::List => f.write_str("list 100 entries"),
        }
    }
}

/// The requests that are timed.
pub(crate) fn requests() -> Vec<Request> {
    let sizes = [("1 KiB", 1 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20)];
    let reads = ["text", "blob"].into_iter().flat_map(|kind| {
        sizes.map(|(size, bytes)| Request::Read {
            uri: format!("sizes:///{kind}/{bytes}"),
            name: format!("read {size} of {kind}"),
        })
    });
    reads.chain([Request::List]).collect()
}

/// A host with one plugin: with this instance reuse, and the default limits except for the rate.
pub(crate) async fn host(kept: &StateDir, instances: Option<InstanceReuse>) -> Host {
    build_fixtures();
    let component = root().join("target/plugins/fixtures/sizes.wasm");
    let name = "sizes".parse().expect("a name");
    let mut plugin = Plugin::new(name, component, MOUNT.parse().expect("a mount"));
    plugin.instances = instances;
    plugin.limits.rate = "1000000/s".parse().expect("it is in range");
    plugin.config.insert("count".to_owned(), COUNT.to_string());
    let config = Config::new().plugin(plugin).expect("there is one plugin");
    let host = Host::start(in_directories(config, kept)).await.expect("the host starts");
    for plugin in host.plugins() {
        assert!(matches!(plugin.state, PluginState::Ready), "{plugin:?}");
    }
    host
}

/// A host with one native provider, under the same limits.
pub(crate) async fn native_host(kept: &StateDir, provider: impl Provider) -> Host {
    let limits = Limits { rate: "1000000/s".parse().expect("it is in range"), ..Limits::default() };
    let mount = MOUNT.parse().expect("a mount");
    let plugin = NativePlugin::new("native".parse().expect("a name"), mount, provider).limits(limits);
    let builder = Host::builder(in_directories(Config::new(), kept)).native_plugin(plugin);
    builder.start().await.expect("the host starts")
}

/// The config with the benchmark's directories and page size.
fn in_directories(mut config: Config, kept: &StateDir) -> Config {
    config.server.cache = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("components"));
    config.server.state = Some(kept.state.path().to_owned());
    config.server.page_size = PAGE.try_into().expect("it is in range");
    config
}

/// Builds the guests for tests and benchmarks. It takes a second when everything is up to date.
fn build_fixtures() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["xtask", "plugins", "--fixtures"]).current_dir(root()).status();
    assert!(built.is_ok_and(|status| status.success()), "`cargo xtask plugins --fixtures` failed");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the host lies in a folder of the repository")
}
