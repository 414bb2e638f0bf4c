//! Pages, trees and histories of a real repository: the provider `git` through the host, over stdio, with a fresh
//! instance for each call and with reused ones, beside `git` with the start of its process.
//!
//! The repository is this one, or the one at `MCP_HOST_BENCH_REPOSITORY`; the path whose history is read is the file
//! that `MCP_HOST_BENCH_PATH` names, or `Cargo.toml`.

use std::path::{Path, PathBuf};

use mcp_host_tests::Plugin;

use crate::bench_request::BenchRequest;
use crate::beside::{Comparison, Hosts};
use crate::git_pack_fixture::git;
use crate::options::Options;
use crate::setup;

/// Measures each kind of request.
pub(crate) async fn run(options: &Options) {
    let repository = std::env::var_os("MCP_HOST_BENCH_REPOSITORY").map_or_else(setup::repository, PathBuf::from);
    let path = std::env::var("MCP_HOST_BENCH_PATH").unwrap_or_else(|_| "Cargo.toml".to_owned());
    let hosts = Hosts::start(Plugin::git("r", &repository).limit("memory", "256MiB")).await;
    hosts.compare(options, ["A real repository", "git-history", "`git`"], comparisons(&repository, &path)).await;
    hosts.end().await;
}

fn comparisons(repository: &Path, path: &str) -> Vec<Comparison> {
    let folder = Path::new(path).parent().and_then(Path::to_str).unwrap_or_default();
    let tree = if folder.is_empty() { String::new() } else { format!("/{folder}") };
    let of = |request: BenchRequest, arguments: &[&str]| {
        let (repository, arguments) = (repository.to_owned(), arguments.iter().map(ToString::to_string));
        let arguments: Vec<_> = arguments.collect();
        Comparison::new(request, move || {
            let mut command = git(&repository);
            command.args(&arguments);
            command
        })
    };
    let read = |name: &str, path: &str| BenchRequest::read(name, &format!("git://r/{path}"), 200);
    let log = ["log", "-50", "--format=%H%x09%aI%x09%an%x09%s", "HEAD", "--", path];
    vec![
        of(BenchRequest::list("first page of the files", 1000), &["ls-tree", "-r", "HEAD"]),
        of(read("tree of a directory", &format!("tree/HEAD{tree}")), &["ls-tree", &format!("HEAD:{folder}")]),
        of(read("a file", &format!("blob/HEAD/{path}")), &["cat-file", "blob", &format!("HEAD:{path}")]),
        of(read("log of 50", "log/HEAD?limit=50"), &log[..3]),
        of(read("log of a path", &format!("log/HEAD?path={path}&limit=50")), &log),
    ]
}
