//! The commands on the pages `docs/five-minutes` are run verbatim, and print the output that the pages show. The
//! commands for provider teams need Python's package registry; `cargo xtask languages` runs the same commands.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{Folder, ReservedPort, TIMEOUT, client_program, host_binary};
use tokio::process::Command;
use tokio::time::timeout;

/// The address of the server on the pages.
const ADDRESS: &str = "127.0.0.1:8080";

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/five-minutes/{name}.md"));
    fs::read_to_string(path).unwrap()
}

/// Returns the blocks of a language on a page, joined.
fn blocks(page: &str, language: &str) -> String {
    let begin = format!("```{language}\n");
    page.split(&*begin).skip(1).map(|rest| rest.split_once("```").expect("a block ends").0).collect()
}

/// Runs the commands of a page in a folder, with the server at another port, and returns their output.
async fn run(page: &str, folder: &Folder) -> String {
    let port = ReservedPort::new();
    let commands = blocks(page, "sh");
    assert!(commands.contains(ADDRESS));
    let commands = commands.replace(ADDRESS, &port.address().to_string());
    let programs = [host_binary(), client_program("python/bin/python3")];
    let programs = programs.iter().map(|program| program.parent().unwrap().to_owned());
    let path = std::env::join_paths(programs.chain(["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into))).unwrap();
    let mut shell = Command::new("bash");
    // The server ends with the shell.
    shell.args(["-euo", "pipefail", "-c", &format!("trap 'kill %1 && wait' EXIT\n{commands}")]);
    shell.env_clear().env("PATH", path).env("HOME", folder.path()).current_dir(folder.path());
    let output = timeout(TIMEOUT, shell.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.expect("it ends").expect("this machine has bash");
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}");
    printed.into_owned()
}

#[tokio::test]
async fn the_commands_for_admins_serve_a_folder_without_its_confidential_part() {
    let folder = Folder::with_files([("of-the-page", "")]);
    let printed = run(&page("admins"), &folder).await;
    for expected in [
        "notes:///deploying.md  text/markdown  23 B  Deploying on Fridays\n",
        "allowed: `allow` has `notes:///**`",
        "\n401\n",
        "\"Authorization\": \"Bearer ${input:handbook-token}\"",
        // The saved config may have been applied before the command.
        "generation 2",
    ] {
        assert!(printed.contains(expected), "no {expected:?} in:\n{printed}");
    }
    assert!(!printed.contains("salaries"), "{printed}");
}

#[tokio::test]
async fn the_commands_for_applications_read_a_resource_by_a_library_and_by_curl() {
    let page = page("applications");
    let folder = Folder::with_files([("read.py", blocks(&page, "python"))]);
    let printed = run(&page, &folder).await;
    for expected in [
        "notes:///deploying.md Deploying on Fridays\n# Deploying on Fridays\n",
        "\"snippet\":\"# Deploying on Fridays\"",
        "\"text\":\"# Deploying on Fridays\\n\"",
    ] {
        assert!(printed.contains(expected), "no {expected:?} in:\n{printed}");
    }
}
