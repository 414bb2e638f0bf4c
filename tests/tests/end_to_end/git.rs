//! The provider `git` beside the command `git`: both say the same of the same repository.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use futures::future::join_all;
use mcp_host_tests::{Client, ConfigFile, Folder, GitRepo, Plugin, Stdio, body, reserved_expansion, run};
use rmcp::model::{ErrorCode, ResourceContents};

/// Names that somebody's parser, shell or URI library has stumbled over.
const HOSTILE: [&[u8]; 22] = [
    b"README.md",
    b"with space.txt",
    b" leading and trailing ",
    b"new\nline.txt",
    b"tab\there",
    b"quo\"te'd.txt",
    b"back\\slash.txt",
    b"100%.txt",
    b"%2e%2e",
    b"%00.txt",
    b"hash#tag.md",
    b"what?.md",
    b"a&b=c;d+e,f.txt",
    b"{brace}[bracket]<angle>|^`.txt",
    "日本語/メモ.md".as_bytes(),
    "é-composed-é.txt".as_bytes(),
    b"not-utf8-\xff\xfe.bin",
    b"...",
    b"..hidden",
    b"-rf",
    b"deep/er/and/deeper/still.txt",
    b"a:b@c.txt",
];

fn served(repo: &GitRepo) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::git("repo", repo.path()))
}

/// What RFC 3986 lets stand in a path as it is; everything else is percent-encoded.
fn encoded(path: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    path.iter().map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A file as `git ls-tree -r` has it.
struct File {
    mode: String,
    id: String,
    path: Vec<u8>,
}

fn files(repo: &GitRepo, rev: &str) -> Vec<File> {
    let records = repo.records(["ls-tree", "-r", "-z", rev]);
    let parsed = records.iter().map(|record| {
        let tab = record.iter().position(|byte| *byte == b'\t').unwrap();
        let fields: Vec<_> = std::str::from_utf8(&record[..tab]).unwrap().split(' ').collect();
        File { mode: fields[0].to_owned(), id: fields[2].to_owned(), path: record[tab + 1..].to_vec() }
    });
    parsed.collect()
}

/// Everything that `git` says of the files at `rev` is what the client gets.
async fn assert_same_files(client: &Client, repo: &GitRepo, rev: &str) {
    let files = files(repo, rev);
    for file in &files {
        let uri = format!("git://repo/blob/{}/{}", encoded(rev.as_bytes()).replace('/', "%2F"), encoded(&file.path));
        let expected = repo.git(["cat-file", "blob", &file.id]);
        let contents = client.read(&uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
        assert_eq!(body(&contents[0]), expected, "{uri}");
        let is_text = matches!(contents[0], ResourceContents::TextResourceContents { .. });
        assert_eq!(is_text, std::str::from_utf8(&expected).is_ok(), "{uri}");
    }
}

async fn assert_same_listing(client: &Client, repo: &GitRepo) {
    let listed = client.resources().await;
    let files = files(repo, "HEAD");
    let expected: Vec<_> = files.iter().map(|file| format!("git://repo/blob/HEAD/{}", encoded(&file.path))).collect();
    assert_eq!(listed.iter().map(|resource| resource.uri.as_str()).collect::<Vec<_>>(), expected);
    for (resource, file) in listed.iter().zip(&files) {
        let meta = resource.meta.as_ref().unwrap();
        assert_eq!((meta["git/object"].as_str(), meta["git/mode"].as_str()), (Some(&*file.id), Some(&*file.mode)));
    }
}

/// What `git log` with those arguments says, in the format of the provider's logs.
fn log(repo: &GitRepo, arguments: &[&str]) -> String {
    String::from_utf8(repo.git([&["log", "--format=%H%x09%aI%x09%an%x09%s"], arguments].concat())).unwrap()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// Two branches and a merge, with files that come, change, move and go.
fn history() -> GitRepo {
    let repo =
        GitRepo::with_files([("keep.txt", "same\n"), ("change.txt", "one\n"), ("go.txt", "bye\n"), ("d/e.txt", "e\n")]);
    repo.git(["switch", "--quiet", "--create", "feature/x"]);
    repo.files().write("feature.txt", "new\n");
    repo.commit("a feature");
    repo.git(["switch", "--quiet", "main"]);
    repo.files().write("change.txt", "two\n");
    repo.git(["rm", "--quiet", "go.txt"]);
    repo.commit("change one, lose one");
    repo.git(["merge", "--quiet", "--no-ff", "--no-edit", "feature/x"]);
    repo.files().write("d/e.txt", "e\nmore\n");
    repo.commit("日本語の件名\n\nAnd a body\nof two lines.");
    repo
}

#[tokio::test]
async fn every_file_with_a_hostile_name_is_listed_and_read_as_git_has_it() {
    let contents = |name: &'static [u8]| (Path::new(OsStr::from_bytes(name)), [name, b"\n\xf0\x9f\x98\x80"].concat());
    let repo = GitRepo::with_files(HOSTILE.map(contents));
    repo.files().write("binary.bin", b"\x00\x01\xff\xfe");
    repo.files().write("empty", b"");
    repo.files().link("link", "deep/er");
    repo.files().link("link-away", "/etc/passwd");
    repo.commit("more");
    let config = served(&repo).page_size(7).write();
    let server = Stdio::start(&config).await;
    assert_eq!(files(&repo, "HEAD").len(), HOSTILE.len() + 4);
    assert_same_listing(server.client(), &repo).await;
    assert_same_files(server.client(), &repo, "HEAD").await;
    server.end().await;
}

#[tokio::test]
async fn paths_are_completed_to_what_the_template_makes_the_right_uri_of() {
    let repo = GitRepo::with_files(HOSTILE.map(|name| (Path::new(OsStr::from_bytes(name)), name)));
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    let client = server.client();
    let complete = async |typed: &str| {
        client.complete("git://repo/blob/{rev}/{+path}", ("path", typed), &[("rev", "main")]).await.unwrap().values
    };
    let mut files = Vec::new();
    for value in complete("").await {
        match value.ends_with('/') {
            true => files.extend(complete(&value).await),
            false => files.push(value),
        }
    }
    assert!(files.len() > HOSTILE.len() / 2, "{files:?}");
    for value in files.iter().filter(|value| !value.ends_with('/')) {
        let uri = format!("git://repo/blob/main/{}", reserved_expansion(value));
        let read = client.read(&uri).await.unwrap_or_else(|error| panic!("{value:?}: {error:?}"));
        assert!(HOSTILE.contains(&&*body(&read[0])), "{value:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn every_revision_is_read_by_branch_tag_full_and_short_id() {
    let repo = history();
    repo.git(["tag", "light", "HEAD~1"]);
    repo.git(["tag", "--annotate", "--message", "a release", "v1.0/rc", "HEAD~2"]);
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    let full = repo.line(["rev-parse", "HEAD~1"]);
    let short = repo.line(["rev-parse", "--short", "HEAD~1"]);
    for rev in ["HEAD", "main", "feature/x", "light", "v1.0/rc", "refs/heads/main", &full, &short] {
        assert_same_files(server.client(), &repo, rev).await;
    }
    assert_eq!(server.client().text("git://repo/blob/feature%2Fx/feature.txt").await, "new\n");
    server.end().await;
}

#[tokio::test]
async fn a_log_is_what_git_log_says() {
    let repo = history();
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    let client = server.client();
    for (query, arguments) in [
        ("main", ["main"].as_slice()),
        ("feature%2Fx", &["feature/x"]),
        ("main?limit=2", &["-2", "main"]),
        ("main?path=change.txt", &["main", "--", "change.txt"]),
        ("main?path=go.txt", &["main", "--", "go.txt"]),
        ("main?path=d", &["main", "--", "d"]),
        ("main?path=d%2Fe.txt&limit=1", &["-1", "main", "--", "d/e.txt"]),
        ("main?path=feature.txt", &["main", "--", "feature.txt"]),
        ("main?path=never-there", &["main", "--", "never-there"]),
    ] {
        let text = client.text(&format!("git://repo/log/{query}")).await;
        assert_eq!(text, log(&repo, arguments), "{query}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_commit_says_what_git_show_says_of_files_and_people() {
    let repo = history();
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    for rev in lines(&repo.line(["rev-list", "main"])) {
        let commit = server.client().text(&format!("git://repo/commit/{rev}")).await;
        let subject = repo.line(["log", "-1", "--format=%s", rev]);
        assert!(commit.starts_with(&format!("commit {rev}\n")) && commit.contains(&subject), "{commit}");
        let show = |what: &[&str]| {
            repo.line([["show", "--first-parent", "-m", "--no-renames", "--format="].as_slice(), what, &[rev]].concat())
        };
        let is_status = |line: &&str| matches!(line.split_once('\t'), Some(("A" | "M" | "D" | "T", _)));
        let statuses: Vec<_> = commit.lines().filter(is_status).collect();
        assert_eq!(statuses, lines(&show(&["--name-status"])), "{commit}");
        let diff_lines = |text: &str| {
            let is_diff = |line: &&str| ["diff --git", "@@", "+", "-"].iter().any(|start| line.starts_with(start));
            text.lines().filter(is_diff).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(diff_lines(&commit), diff_lines(&show(&["--patch"])), "{commit}");
    }
    let last = server.client().text("git://repo/commit/main").await;
    for part in [
        "Ada Lovelace <ada@example.com>",
        "Grace Hopper <grace@example.com>",
        "日本語の件名",
        "And a body\n",
        "of two lines.",
    ] {
        assert!(last.contains(part), "{part}:\n{last}");
    }
    server.end().await;
}

#[tokio::test]
async fn refs_are_what_git_show_ref_says() {
    let repo = history();
    repo.git(["tag", "light"]);
    repo.git(["tag", "--annotate", "--message", "a release", "v1"]);
    repo.git(["pack-refs", "--all"]);
    repo.git(["branch", "loose"]);
    repo.git(["tag", "--annotate", "--message", "another", "v2"]);
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    let refs = server.client().text("git://repo/refs").await;
    assert_eq!(refs.trim_end(), repo.line(["show-ref", "--head", "--dereference"]));
    server.end().await;
}

#[tokio::test]
async fn a_directory_lists_what_git_ls_tree_lists() {
    let repo = history();
    repo.files().write("d/sub dir/f.txt", "f");
    repo.commit("deeper");
    let config = served(&repo).page_size(2).write();
    for (uri, dir) in [
        ("git://repo/tree/main", ""),
        ("git://repo/tree/main/d", "d/"),
        ("git://repo/tree/main/d/sub%20dir", "d/sub dir/"),
    ] {
        let listed = run(["list", uri, "--all", "--json", "--config", config.path().to_str().unwrap()]).await.success();
        let pages: Vec<serde_json::Value> =
            listed.text().lines().map(|page| serde_json::from_str(page).unwrap()).collect();
        let uris =
            pages.iter().flat_map(|page| page["resources"].as_array().unwrap()).map(|one| one["uri"].as_str().unwrap());
        let records = repo.records(["ls-tree", "-z", "main", dir].into_iter().filter(|argument| !argument.is_empty()));
        let expected = records.iter().map(|record| {
            let tab = record.iter().position(|byte| *byte == b'\t').unwrap();
            let family = if record[..tab].windows(4).any(|word| word == b"tree") { "tree" } else { "blob" };
            format!("git://repo/{family}/main/{}", encoded(&record[tab + 1..]))
        });
        assert_eq!(uris.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{uri}");
    }
}

#[tokio::test]
async fn it_does_not_matter_how_objects_and_refs_are_stored() {
    let repo = history();
    let steps: [&[&str]; 5] = [
        &["repack", "--quiet", "-d"],
        &["pack-refs", "--all"],
        &["commit-graph", "write", "--reachable"],
        &["repack", "--quiet", "-a", "-d", "--depth=50", "--window=50", "-f"],
        &["multi-pack-index", "write"],
    ];
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    for step in steps {
        repo.git(step);
        assert_same_listing(server.client(), &repo).await;
        assert_same_files(server.client(), &repo, "feature/x").await;
        assert_eq!(server.client().text("git://repo/log/main").await, log(&repo, &["main"]), "{step:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_repository_of_sha256_is_served_like_any_other() {
    let repo = GitRepo::init(&["--object-format=sha256", "--initial-branch=main"]);
    repo.files().write("a.txt", "A");
    repo.commit("first");
    repo.git(["repack", "--quiet", "-a", "-d"]);
    repo.files().write("b.txt", "B");
    let id = repo.commit("second");
    assert_eq!(id.len(), 64);
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    assert_same_listing(server.client(), &repo).await;
    for rev in ["main", &id, &id[..8]] {
        assert_same_files(server.client(), &repo, rev).await;
    }
    assert_eq!(server.client().text("git://repo/log/main").await, log(&repo, &["main"]));
    server.end().await;
}

#[tokio::test]
async fn bare_and_shallow_clones_are_served() {
    let origin = history();
    for arguments in [["--quiet"].as_slice(), &["--depth=2"]] {
        let clone = origin.bare_clone(arguments);
        let config = served(&clone).write();
        let server = Stdio::start(&config).await;
        assert_same_listing(server.client(), &clone).await;
        assert_eq!(server.client().text("git://repo/log/main").await, log(&clone, &["main"]));
        let commit = server.client().text("git://repo/commit/main").await;
        assert!(commit.contains("+more"), "{commit}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_repository_without_a_commit_is_empty_and_fills_up() {
    let repo = GitRepo::empty();
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    assert!(server.client().uris().await.is_empty());
    assert_eq!(server.client().refusal("git://repo/blob/main/a").await.code, ErrorCode(-32002));
    repo.files().write("a.txt", "A");
    repo.commit("first");
    assert_same_listing(server.client(), &repo).await;
    server.end().await;
}

#[tokio::test]
async fn a_link_is_shown_as_its_target_and_never_followed() {
    let repo = GitRepo::with_files([("secret.txt", "secret")]);
    repo.files().link("away", "/etc/passwd");
    repo.files().link("here", "secret.txt");
    repo.commit("links");
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    assert_eq!(server.client().text("git://repo/blob/main/away").await, "/etc/passwd");
    assert_eq!(server.client().text("git://repo/blob/main/here").await, "secret.txt");
    server.end().await;
}

#[tokio::test]
async fn a_submodule_is_shown_as_the_commit_that_it_stands_at() {
    let repo = GitRepo::with_files([("a.txt", "A")]);
    let id = "0123456789abcdef0123456789abcdef01234567";
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{id},module")]);
    repo.git(["commit", "--quiet", "--message", "a submodule"]);
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    assert_same_listing(server.client(), &repo).await;
    let shown = server.client().text("git://repo/blob/main/module").await;
    assert!(shown.contains(id), "{shown}");
    server.end().await;
}

#[tokio::test]
async fn a_pointer_of_large_file_storage_is_the_text_that_it_is() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n";
    let repo = GitRepo::with_files([(".gitattributes", "*.bin filter=lfs\n"), ("big.bin", pointer)]);
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    assert_eq!(server.client().text("git://repo/blob/main/big.bin").await, pointer);
    server.end().await;
}

#[tokio::test]
async fn a_short_id_that_several_objects_begin_with_is_refused_with_all_of_them() {
    let files: Vec<_> = (0..1500).map(|n| (format!("{n}.txt"), n.to_string())).collect();
    let repo = GitRepo::with_files(files);
    let objects = repo.line(["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    let mut ids = lines(&objects);
    ids.sort_unstable();
    let pair = ids.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).expect("enough objects for two to begin alike");
    let config = served(&repo).write();
    let server = Stdio::start(&config).await;
    let error = server.client().refusal(&format!("git://repo/commit/{}", &pair[0][..4])).await;
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert!(pair.iter().all(|id| error.message.contains(*id)), "{}", error.message);
    server.end().await;
}

#[tokio::test]
async fn repositories_behind_two_plugins_never_mix() {
    let files = |of: &'static str| (0..20).map(move |n| (format!("{n}.txt"), format!("{of} {n}")));
    let (one, other) = (GitRepo::with_files(files("one")), GitRepo::with_files(files("other")));
    let config = ConfigFile::new()
        .page_size(7)
        .plugin(Plugin::git("one", one.path()))
        .plugin(Plugin::git("other", other.path()))
        .write();
    let server = Stdio::start(&config).await;
    let client = server.client();
    let reads = (0..20).flat_map(|n| ["one", "other"].map(|of| (n, of))).map(async |(n, of)| {
        assert_eq!(client.text(&format!("git://{of}/blob/main/{n}.txt")).await, format!("{of} {n}"));
    });
    join_all(reads).await;
    let uris = client.uris().await;
    assert_eq!(uris.iter().filter(|uri| uri.starts_with("git://one/")).count(), 20);
    assert_eq!(uris.len(), 40);
    let (of_one, of_other) = (one.line(["rev-parse", "HEAD"]), other.line(["rev-parse", "HEAD"]));
    assert_ne!(of_one, of_other);
    assert_eq!(client.refusal(&format!("git://one/commit/{of_other}")).await.code, ErrorCode(-32002));
    server.end().await;
}

/// The file of a loose object.
fn loose(repo: &GitRepo, id: &str) -> std::path::PathBuf {
    repo.path().join(".git/objects").join(&id[..2]).join(&id[2..])
}

#[tokio::test]
async fn a_damaged_object_fails_its_own_read_only() {
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    for damage in ["cut", "flipped", "emptied"] {
        let repo = GitRepo::with_files([("good.txt", "good"), ("bad.txt", &*text)]);
        let file = loose(&repo, &repo.line(["rev-parse", "HEAD:bad.txt"]));
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        match damage {
            "cut" => bytes.truncate(middle),
            "flipped" => bytes[middle] ^= 0xff,
            _ => bytes.clear(),
        }
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        let config = served(&repo).write();
        let server = Stdio::start(&config).await;
        let error = server.client().refusal("git://repo/blob/main/bad.txt").await;
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{damage}");
        assert_eq!(error.data.unwrap()["kind"], "internal", "{damage}");
        assert_eq!(server.client().text("git://repo/blob/main/good.txt").await, "good", "{damage}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_damaged_pack_is_an_error_and_another_repository_is_served_beside_it() {
    let good = GitRepo::with_files([("a.txt", "A")]);
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    for extension in ["pack", "idx"] {
        let bad = GitRepo::with_files([("bad.txt", &*text)]);
        bad.git(["repack", "--quiet", "-a", "-d"]);
        let packs = fs::read_dir(bad.path().join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        let file = packs.into_iter().find(|path| path.extension() == Some(OsStr::new(extension))).unwrap();
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 3]).unwrap();
        let config =
            ConfigFile::new().plugin(Plugin::git("bad", bad.path())).plugin(Plugin::git("repo", good.path())).write();
        let server = Stdio::start(&config).await;
        let page = server.client().page(None).await.unwrap();
        assert!(page.resources.iter().any(|resource| resource.uri == "git://repo/blob/HEAD/a.txt"), "{extension}");
        let error = server.client().refusal("git://bad/blob/main/bad.txt").await;
        assert!([ErrorCode::INTERNAL_ERROR, ErrorCode(-32002)].contains(&error.code), "{extension}: {error:?}");
        assert_eq!(server.client().text("git://repo/blob/main/a.txt").await, "A");
        server.end().await;
    }
}

#[tokio::test]
async fn a_directory_that_is_no_repository_leaves_its_plugin_missing() {
    let folder = Folder::with_files([("a.txt", "A")]);
    let config = ConfigFile::new().plugin(Plugin::git("repo", folder.path())).plugin(Plugin::unruly("good")).write();
    let server = Stdio::start(&config).await;
    let page = server.client().page(None).await.unwrap();
    assert_eq!(page.meta.unwrap()["mcp-host/missing"][0]["plugin"], "repo");
    assert!(!page.resources.is_empty());
    server.end().await;
}

#[tokio::test]
async fn the_revision_of_the_config_is_what_is_listed() {
    let repo = history();
    let plugin = Plugin::git("repo", repo.path()).config("rev", "feature/x");
    let config = ConfigFile::new().plugin(plugin).write();
    let server = Stdio::start(&config).await;
    let uris = server.client().uris().await;
    assert!(uris.contains(&"git://repo/blob/feature%2Fx/feature.txt".to_owned()), "{uris:?}");
    assert!(uris.contains(&"git://repo/blob/feature%2Fx/go.txt".to_owned()), "{uris:?}");
    server.end().await;
}
