//! Files of a directory through the provider `files`, beside native programs: `cat`, `sed` and `tail` for reads, `find`
//! for a page of a listing of a million files, in one folder and in a thousand. `find` writes the names in no order.
//!
//! A late page is read by a cursor that was made while the folder had only its last files: it says where a listing
//! continues, whatever else there is. Walking to it would take thousands of pages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mcp_host_tests::{Folder, Plugin};
use serde_json::Value;

use crate::bench_request::BenchRequest;
use crate::beside::{Comparison, Hosts};
use crate::options::Options;
use crate::stdio_host::StdioHost;

/// The number of files that are listed; with `--quick` a tenth of that.
const FILES: usize = 1_000_000;
/// The number of files in each of many folders.
const FILES_PER_FOLDER: usize = 1000;
/// The number of files after the first that the late page may have.
const LATE: usize = 250;
/// The lines of the long file, of 60 bytes each.
const LINES: usize = 1_000_000;
/// A page of 100 entries is longer than that.
const PAGE_BYTES: usize = 5000;

/// Measures reads and pages.
pub(crate) async fn run(options: &Options) {
    measure_reads(options).await;
    let files = if options.is_quick() { FILES / 10 } else { FILES };
    measure_pages(options, files, ["one folder", "files-flat"], |n| format!("{n:07}.txt")).await;
    let folders = format!("{} folders", files / FILES_PER_FOLDER);
    measure_pages(options, files, [&folders, "files-in-folders"], |n| {
        format!("{:04}/{n:07}.txt", n / FILES_PER_FOLDER)
    })
    .await;
}

async fn measure_reads(options: &Options) {
    let folder = Folder::with_files([
        ("small.md", "A line of text.\n".repeat(50)),
        ("medium.md", "A line of text.\n".repeat(4096)),
        ("large.md", "A line of text.\n".repeat(65_536)),
    ]);
    let utf8 = folder.write("utf-8.txt", "吾輩は猫である。名前はまだ無い。\n".repeat(12_000));
    let encoded = Command::new("iconv").args(["-f", "UTF-8", "-t", "EUC-JP"]).arg(utf8).output().expect("iconv runs");
    folder.write("euc-jp.txt", encoded.stdout);
    folder.write("long.log", (0..LINES).map(|n| format!("{n:059}\n")).collect::<String>());
    let hosts = Hosts::start(Plugin::files("f", folder.path())).await;
    let of = |name: &str, path: &str, least: usize, program: &str, arguments: &[&str]| {
        let (program, mut arguments) = (program.to_owned(), arguments.iter().map(PathBuf::from).collect::<Vec<_>>());
        arguments.push(folder.path().join(path.split('?').next().unwrap_or(path)));
        Comparison::new(BenchRequest::read(name, &format!("files://f/{path}"), least), move || {
            let mut command = Command::new(&program);
            command.args(&arguments);
            command
        })
    };
    let reads = vec![
        of("`cat`: a file of 800 bytes", "small.md", 800, "cat", &[]),
        of("`cat`: a file of 64 KiB", "medium.md", 65_536, "cat", &[]),
        of("`cat`: a file of 1 MiB", "large.md", 1 << 20, "cat", &[]),
        of("`iconv`: a file of 400 KB in EUC-JP", "euc-jp.txt", 400_000, "iconv", &["-f", "EUC-JP", "-t", "UTF-8"]),
        of("`sed`: line 900,000 of 60 MB", "long.log?lines=900000-900000", 59, "sed", &["-n", "900000{p;q}"]),
        of("`tail`: the last ten lines of it", "long.log?lines=-10", 590, "tail", &["-n", "10"]),
    ];
    hosts.compare(options, ["Reads of files", "files", "native"], reads).await;
    println!("\nPeak memory of the whole host process: {}.", hosts.peak_memory());
    hosts.end().await;
}

/// Measures pages of a listing of `files` files; `path` has the path of each, in the order of the listing.
async fn measure_pages(options: &Options, files: usize, [shape, chart]: [&str; 2], path: impl Fn(usize) -> String) {
    let folder = Folder::with_files::<&str, &str>([]);
    let create = |range: std::ops::Range<usize>| range.for_each(|n| create_empty(&folder.path().join(path(n))));
    create(files - LATE..files);
    let plugin = Plugin::files("f", folder.path()).limit("cpu", "5s").limit("deadline", "20s");
    let hosts = Hosts::start(plugin).await;
    let late = [late_page(&hosts.fresh).await, late_page(&hosts.reused).await];
    println!("\ncreating {files} files in {shape} …");
    create(0..files - LATE);
    let find = |directory: PathBuf| {
        move || {
            let mut command = Command::new("find");
            command.arg(&directory).args(["-type", "f"]).stdout(Stdio::null());
            command
        }
    };
    let pages = vec![
        Comparison::new(BenchRequest::list("the first page", PAGE_BYTES), find(folder.path().to_owned())),
        Comparison::of_each(late, find(folder.path().to_owned())),
    ];
    let heading = format!("Pages of 100 of {files} files in {shape}");
    hosts.compare(options, [&heading, chart, "`find`"], pages).await;
    println!("\nPeak memory of the whole host process: {}.", hosts.peak_memory());
    hosts.end().await;
}

/// Returns the request of the page after the first.
async fn late_page(host: &StdioHost) -> BenchRequest {
    let first = host.client.send_for_text(&BenchRequest::page(None)).await;
    let first: Value = serde_json::from_str(&first).expect("an answer is JSON");
    let cursor = first["result"]["nextCursor"].as_str().expect("there is a second page");
    let mut page = BenchRequest::page(Some(cursor));
    (page.name, page.min_size) = ("a page at the end".to_owned(), PAGE_BYTES);
    page
}

fn create_empty(file: &Path) {
    if let Err(error) = File::create(file) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        fs::create_dir_all(file.parent().expect("it is in a folder")).expect("folders can be made");
        File::create(file).expect("files can be made");
    }
}
