//! The provider `git`, compared with the command `git` on the same repository.

mod corruption;
mod files;
mod history;
mod learned;
mod limits;
mod storage;
mod subscriptions;

use mcp_host_tests::{Client, ConfigFile, GitRepo, Plugin, content_bytes};
use rmcp::model::ResourceContents;

fn repo_config(repo: &GitRepo) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::git("repo", repo.path()))
}

/// The characters that RFC 3986 allows in a path; all others are percent-encoded.
fn percent_encode(path: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    path.iter().map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A file as `git ls-tree -r` prints it.
struct TreeFile {
    mode: String,
    id: String,
    path: Vec<u8>,
}

fn tree_files(repo: &GitRepo, rev: &str) -> Vec<TreeFile> {
    let records = repo.git_records(["ls-tree", "-r", "-z", rev]);
    let parsed = records.iter().map(|record| {
        let tab = record.iter().position(|byte| *byte == b'\t').unwrap();
        let fields: Vec<_> = std::str::from_utf8(&record[..tab]).unwrap().split(' ').collect();
        TreeFile { mode: fields[0].to_owned(), id: fields[2].to_owned(), path: record[tab + 1..].to_vec() }
    });
    parsed.collect()
}

/// Asserts that a client gets what `git` prints about the files at `rev`.
async fn assert_same_files(client: &Client, repo: &GitRepo, rev: &str) {
    let files = tree_files(repo, rev);
    for file in &files {
        let uri = format!(
            "git://repo/blob/{}/{}",
            percent_encode(rev.as_bytes()).replace('/', "%2F"),
            percent_encode(&file.path)
        );
        let expected = repo.git(["cat-file", "blob", &file.id]);
        let contents = client.read(&uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
        assert_eq!(content_bytes(&contents[0]), expected, "{uri}");
        let is_text = matches!(contents[0], ResourceContents::TextResourceContents { .. });
        assert_eq!(is_text, std::str::from_utf8(&expected).is_ok(), "{uri}");
    }
}

async fn assert_same_listing(client: &Client, repo: &GitRepo) {
    let listed = client.resources().await;
    let files = tree_files(repo, "HEAD");
    let expected: Vec<_> =
        files.iter().map(|file| format!("git://repo/blob/HEAD/{}", percent_encode(&file.path))).collect();
    assert_eq!(listed.iter().map(|resource| resource.uri.as_str()).collect::<Vec<_>>(), expected);
    for (resource, file) in listed.iter().zip(&files) {
        let meta = resource.meta.as_ref().unwrap();
        assert_eq!((meta["git/object"].as_str(), meta["git/mode"].as_str()), (Some(&*file.id), Some(&*file.mode)));
    }
}

/// Returns the output of `git log` with these arguments, in the format of the provider's logs.
fn git_log(repo: &GitRepo, arguments: &[&str]) -> String {
    String::from_utf8(repo.git([&["log", "--format=%H%x09%aI%x09%an%x09%s"], arguments].concat())).unwrap()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// A repository with two branches and a merge, with files that are added, changed, moved and removed.
fn repo_with_history() -> GitRepo {
    let repo =
        GitRepo::with_files([("keep.txt", "same\n"), ("change.txt", "one\n"), ("go.txt", "bye\n"), ("d/e.txt", "e\n")]);
    repo.git(["switch", "--quiet", "--create", "feature/x"]);
    repo.worktree().write("feature.txt", "new\n");
    repo.commit("a feature");
    repo.git(["switch", "--quiet", "main"]);
    repo.worktree().write("change.txt", "two\n");
    repo.git(["rm", "--quiet", "go.txt"]);
    repo.commit("change one, lose one");
    repo.git(["merge", "--quiet", "--no-ff", "--no-edit", "feature/x"]);
    repo.worktree().write("d/e.txt", "e\nmore\n");
    repo.commit("日本語の件名\n\nAnd a body\nof two lines.");
    repo
}
