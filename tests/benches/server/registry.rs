//! Components from a registry: the start of a host whose plugins are all locked, and the way from `mcp-host add` to the
//! first read.
//!
//! The registry is Debian's `docker-registry` on loopback, over TLS, and each component is signed.

use std::path::Path;
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Folder, Plugin, Registry, RegistryProject, component, host_command};

use crate::chart::{Chart, Ratio};
use crate::load::percentile;
use crate::options::Options;
use crate::plugin_count;
use crate::process::compile;
use crate::table;

/// The number of plugins.
const PLUGINS: usize = 100;

/// Measures both.
pub(crate) async fn run(options: &Options) {
    let registry = Registry::open().await;
    let project = RegistryProject::new(&registry);
    measure_starts(options, &registry, &project).await;
    measure_first_reads(options, &registry, &project).await;
}

/// Starts a host with files and a host with the same components locked, in turn.
async fn measure_starts(options: &Options, registry: &Registry, project: &RegistryProject) {
    let mut locked = ConfigFile::new().allow_all();
    for number in 0..PLUGINS {
        let reference = format!("oci://{}/bench/p{number}:1.0.0", registry.name());
        push(project, &plugin_count::component(number), &reference).await;
        let mount = format!("sizes://{number}/");
        locked = locked.plugin(Plugin::new(&format!("p{number}"), Path::new(&reference), &mount).config("count", 100));
    }
    let trust = format!(
        "\n[registry]\nca = ['{}']\n\n[[trust]]\nsources = ['oci://{}']\nkeys = [{{ file = '{}' }}]\n",
        project.path("ca.pem").display(),
        registry.name(),
        project.path("acme.pub").display()
    );
    // The one with files, and the locked one.
    let configs = [plugin_count::config_file(PLUGINS).write(), locked.append(&trust).write()];
    let lock = host_command().arg("lock").arg("--config").arg(configs[1].path()).output().await.expect("it starts");
    assert!(lock.status.success(), "{}", String::from_utf8_lossy(&lock.stderr));
    for config in &configs {
        compile(config).await;
    }
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..options.alternating_runs() {
        // Each goes first in every other turn.
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            times[index].push(plugin_count::start(&configs[index], PLUGINS).await.elapsed);
        }
    }
    let mut ratios: Vec<_> =
        times[0].iter().zip(&times[1]).map(|(file, lock)| lock.as_secs_f64() / file.as_secs_f64()).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let axis = "time from process start to first answer ÷ components of files: less is better";
    let mut chart = Chart::new("Locked components", axis, ["locked"]);
    chart.add(&format!("{PLUGINS} plugins"), vec![Ratio::of(ratios.clone())]);
    chart.write(options.charts.as_deref(), "registry");
    let [files, locked] = times.map(|mut times| {
        times.sort_unstable();
        percentile(&times, 0.5)
    });
    let ratio = |index: usize| ratios.get(index).map(|ratio| format!("{ratio:.3}")).unwrap_or_default();
    let row = vec![
        PLUGINS.to_string(),
        table::millis(files),
        table::millis(locked),
        ratio(ratios.len() / 2),
        ratio(0),
        ratio(ratios.len() - 1),
    ];
    let header = ["plugins", "files ms", "locked ms", "median of the ratios", "smallest", "largest"];
    table::print("From process start to first answer, components of files and locked ones", &header, vec![row]);
}

/// Adds a component of 1.2 MB to an empty config, with an empty store and an empty cache, and reads a note.
async fn measure_first_reads(options: &Options, registry: &Registry, project: &RegistryProject) {
    let reference = format!("oci://{}/bench/notes:1.0.0", registry.name());
    push(project, &component("notes"), &reference).await;
    let mut times = Vec::new();
    for _ in 0..options.rounds() {
        times.push(first_read(registry, project, &reference).await);
    }
    times.sort_unstable();
    let row = vec![table::millis(percentile(&times, 0.5)), table::millis(percentile(&times, 1.0))];
    table::print("`mcp-host add` of a component of 1.2 MB to the first answer", &["median ms", "most ms"], vec![row]);
}

async fn first_read(registry: &Registry, publisher: &RegistryProject, reference: &str) -> Duration {
    let notes = Folder::with_files([("a.md", "one\n")]);
    let project = RegistryProject::new(registry);
    project.write("acme.pub", publisher.text("acme.pub"));
    let began = Instant::now();
    project.run(["add", "notes", reference, "--mount", "notes:///"]).await.success();
    let config = project.text("mcp-host.toml");
    let grant = format!("\n[[plugin.grants.dirs]]\nhost = '{}'\nguest = '/notes'\n", notes.path().display());
    project.write("mcp-host.toml", config.replace("[server]\n", "[server]\ncache = 'cache'\n") + &grant);
    project.run(["read", "notes:///a.md"]).await.success();
    began.elapsed()
}

async fn push(project: &RegistryProject, component: &Path, reference: &str) {
    let (key, reference) = (project.path("acme.pem"), reference.as_ref());
    project
        .run(["push".as_ref(), component.as_os_str(), reference, "--sign".as_ref(), key.as_os_str()])
        .await
        .success();
}
