//! `mcp-host init`: the first config of a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{Folder, GitRepo, component, host_binary, host_command};

/// Runs `mcp-host` in a directory, and returns its exit code, standard output and standard error.
async fn run_in(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = host_command();
    command.args(arguments).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Runs another copy of `mcp-host` in a directory, like [`run_in`].
async fn run_copy_in(program: &Path, dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let host = host_command();
    let mut command = std::process::Command::new(program);
    command.env_clear().envs(host.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = tokio::process::Command::from(command).args(arguments).current_dir(dir).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns the arguments of `init`, with the directory of the tests' components.
fn init_arguments() -> [String; 3] {
    let plugins = component("git").parent().unwrap().to_str().unwrap().to_owned();
    ["init".to_owned(), "--plugins".to_owned(), plugins]
}

async fn init(dir: &Path) -> (i32, String, String) {
    let arguments = init_arguments();
    run_in(dir, &arguments.each_ref().map(String::as_str)).await
}

#[tokio::test]
async fn what_is_found_is_served_and_check_passes() {
    let repo = GitRepo::with_files([("docs/intro.md", "# Intro\n"), ("src/main.rs", "fn main() {}\n")]);
    let (code, out, err) = init(repo.path()).await;
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("wrote mcp-host.toml"), "{err}");
    let (code, _, err) = run_in(repo.path(), &["check", "--strict"]).await;
    assert_eq!(code, 0, "{err}");
    let (_, listed, _) = run_in(repo.path(), &["list", "--all"]).await;
    assert!(listed.contains("src/main.rs") && listed.contains("files:///docs/intro.md"), "{listed}");
}

#[tokio::test]
async fn installed_providers_are_used_by_name() {
    let prefix = Folder::with_files([("bin/x", ""), ("lib/mcp-host/plugins/x", "")]);
    let program = prefix.path().join("bin/mcp-host");
    if std::fs::hard_link(host_binary(), &program).is_err() {
        std::fs::copy(host_binary(), &program).unwrap();
    }
    for name in ["git", "files"] {
        let installed = prefix.path().join(format!("lib/mcp-host/plugins/{name}.wasm"));
        std::fs::copy(component(name), installed).unwrap();
    }
    let repo = GitRepo::with_files([("docs/intro.md", "# Intro\n")]);
    let run = async |arguments: &[&str]| run_copy_in(&program, repo.path(), arguments).await;
    let (code, _, err) = run(&["init"]).await;
    let written = std::fs::read_to_string(repo.path().join("mcp-host.toml")).unwrap();
    let names = ["component = \"git\"", "component = \"files\""];
    assert!(code == 0 && names.iter().all(|name| written.contains(name)), "{err}{written}");
    let (code, _, err) = run(&["check", "--strict"]).await;
    assert_eq!(code, 0, "{err}");
    let (_, listed, err) = run(&["list", "--all"]).await;
    assert!(listed.contains("files:///docs/intro.md"), "{listed}{err}");
    let (code, shown, err) = run(&["inspect", "git"]).await;
    assert!(code == 0 && shown.contains("provider  git"), "{shown}{err}");
    for command in ["inspect", "test"] {
        let (code, _, err) = run(&[command, "gti"]).await;
        assert!(code == 1 && err.contains("no provider `gti`") && err.contains("`./gti`"), "{err}");
    }

    std::fs::write(repo.path().join("gti"), "").unwrap();
    std::fs::write(repo.path().join("mcp-host.toml"), written.replace("\"git\"\nmount", "\"gti\"\nmount")).unwrap();
    let (code, _, err) = run(&["check"]).await;
    assert!(code == 2 && err.contains("component = \"./gti\""), "{err}");
}

#[tokio::test]
async fn search_and_tools_are_on_and_each_text_is_searched_once() {
    let repo = GitRepo::with_files([("docs/intro.md", "# Intro\nbreaker\n")]);
    assert_eq!(init(repo.path()).await.0, 0);
    let (code, found, err) = run_in(repo.path(), &["search", "breaker"]).await;
    assert!(code == 0 && found.contains("files:///docs/intro.md") && !found.contains("git://"), "{found}{err}");
    let file = repo.path().join("mcp-host.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("\ntools = [\"list\", \"read\", \"search\", \"context\"]\n"), "{written}");
    std::fs::write(&file, written.replace("# search = ", "search = ")).unwrap();
    let (code, _, err) = run_in(repo.path(), &["check", "--strict"]).await;
    assert_eq!(code, 0, "{err}");
}

#[tokio::test]
async fn several_paths_have_names_of_their_own() {
    let parent = Folder::with_files([("a/x.md", "# X\n"), ("b/y.md", "# Y\n")]);
    let [init_command, option, plugins] = init_arguments();
    let (code, _, err) = run_in(parent.path(), &[&init_command, "a", "b", &option, &plugins]).await;
    assert_eq!(code, 0, "{err}");
    assert_eq!(run_in(parent.path(), &["check", "--strict"]).await.0, 0);
    let (_, listed, err) = run_in(parent.path(), &["list", "--all"]).await;
    assert!(listed.contains("notes://a/x.md") && listed.contains("notes://b/y.md"), "{listed}{err}");
    let written = std::fs::read_to_string(parent.path().join("mcp-host.toml")).unwrap();
    assert!(written.contains("host = \"a\""), "relative, so that it can be moved: {written}");
}

#[tokio::test]
async fn what_git_ignores_is_not_served() {
    let repo = GitRepo::with_files([("docs/intro.md", "# Intro\n"), (".gitignore", "node_modules\nsecrets.txt\n")]);
    for (file, text) in [("node_modules/x/README.md", "# X\n"), ("secrets.txt", "s"), ("prod.env", "S=1\n")] {
        let file = repo.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    assert_eq!(init(repo.path()).await.0, 0);
    let (_, listed, err) = run_in(repo.path(), &["list", "--all"]).await;
    assert!(listed.contains("files:///docs/intro.md"), "{listed}{err}");
    for ignored in ["node_modules", "secrets.txt", "prod.env"] {
        assert!(!listed.contains(ignored), "{listed}");
    }
    for path in ["node_modules/x/README.md", "secrets.txt", "prod.env", "mcp-host.toml"] {
        assert_eq!(run_in(repo.path(), &["read", &format!("files:///{path}")]).await.0, 1, "{path}");
    }
}

#[tokio::test]
async fn in_a_part_of_a_work_tree_rules_above_do_not_apply_and_the_user_is_told() {
    let repo = GitRepo::with_files([
        ("docs/intro.md", "# Intro\n"),
        ("docs/.gitignore", "build\n"),
        ("docs/build/a.md", "# A\n"),
    ]);
    let docs = repo.path().join("docs");
    let (code, _, err) = init(&docs).await;
    assert!(code == 0 && err.contains("warning: ") && err.contains("part of a git repository"), "{err}");
    assert_eq!(run_in(&docs, &["check", "--strict"]).await.0, 0);
    let (_, listed, err) = run_in(&docs, &["list", "--all"]).await;
    assert!(listed.contains("files:///intro.md") && !listed.contains("build"), "{listed}{err}");
}

#[tokio::test]
async fn a_linked_worktree_is_served_with_the_repository_that_it_belongs_to() {
    let repo = GitRepo::with_files([("src/main.rs", "fn main() {}\n")]);
    let parent = Folder::with_files::<&str, &str>([]);
    let linked = parent.path().join("linked");
    repo.git(["worktree", "add", "--quiet", "-b", "linked", linked.to_str().unwrap()]);
    let (code, _, err) = init(&linked).await;
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = run_in(&linked, &["check", "--strict"]).await;
    assert_eq!(code, 0, "{err}");
    let (_, read, err) = run_in(&linked, &["read", "git://linked/blob/linked/src/main.rs"]).await;
    assert_eq!(read, "fn main() {}\n", "{err}");
}

#[tokio::test]
async fn only_what_is_there_is_declared() {
    let notes = Folder::with_files([("a.md", "# A\n")]);
    assert_eq!(init(notes.path()).await.0, 0);
    let config = std::fs::read_to_string(notes.path().join("mcp-host.toml")).unwrap();
    assert!(config.contains("name = \"notes\"") && !config.contains("name = \"git\""), "{config}");
    assert_eq!(run_in(notes.path(), &["check", "--strict"]).await.0, 0);
}

#[tokio::test]
async fn the_config_itself_is_not_served_and_moves_with_its_directory() {
    let notes = Folder::with_files([("a.md", "# A\n")]);
    let [init, option, plugins] = init_arguments();
    for file in ["mcp-host.toml", "my config.toml"] {
        let (code, _, err) = run_in(notes.path(), &[&init, &option, &plugins, "--config", file]).await;
        assert_eq!(code, 0, "{err}");
        let written = std::fs::read_to_string(notes.path().join(file)).unwrap();
        assert!(written.contains("host = \".\""), "{written}");
        let (_, listed, err) = run_in(notes.path(), &["list", "--all", "--config", file]).await;
        let uri = format!("notes:///{}", file.replace(' ', "%20"));
        assert!(listed.contains("notes:///a.md") && !listed.contains(&uri), "{listed}{err}");
        assert_eq!(run_in(notes.path(), &["read", &uri, "--config", file]).await.0, 1);
    }
}

#[tokio::test]
async fn the_config_is_not_served_as_a_file_of_a_commit() {
    let repo = GitRepo::with_files([("a.rs", "fn main() {}\n")]);
    assert_eq!(init(repo.path()).await.0, 0);
    let written = std::fs::read_to_string(repo.path().join("mcp-host.toml")).unwrap();
    let (_, rest) = written.split_once("mount = \"").unwrap();
    let (mount, _) = rest.split_once('"').unwrap();
    repo.commit("config");
    let (code, _, err) = run_in(repo.path(), &["check", "--strict"]).await;
    assert_eq!(code, 0, "{err}");
    let (_, read, err) = run_in(repo.path(), &["read", &format!("{mount}blob/HEAD/a.rs")]).await;
    assert_eq!(read, "fn main() {}\n", "{err}");
    for path in ["blob/HEAD/mcp-host.toml", "blame/HEAD/mcp-host.toml", "blame/HEAD/mcp-host.toml?lines=1-2"] {
        let (code, read, err) = run_in(repo.path(), &["read", &format!("{mount}{path}")]).await;
        assert_eq!((code, read.as_str()), (1, ""), "{path}: {err}");
    }
}

#[tokio::test]
async fn a_config_is_never_overwritten() {
    let folder = Folder::with_files([("a.md", "# A\n"), ("mcp-host.toml", "mine")]);
    folder.symlink("link.toml", "nowhere");
    let (code, _, err) = init(folder.path()).await;
    assert_eq!(code, 1);
    assert!(err.contains("mcp-host.toml exists already") && err.contains("--config FILE"), "{err}");
    assert_eq!(std::fs::read_to_string(folder.path().join("mcp-host.toml")).unwrap(), "mine");
    let [init, option, plugins] = init_arguments();
    let (code, _, err) = run_in(folder.path(), &[&init, &option, &plugins, "--config", "link.toml"]).await;
    assert!(code == 1 && err.contains("exists already"), "{err}");
    assert!(!folder.path().join("nowhere").exists());
}

#[tokio::test]
async fn the_hint_names_the_file_that_was_written() {
    let notes = Folder::with_files([("a.md", "# A\n")]);
    let [init, option, plugins] = init_arguments();
    let (code, _, err) = run_in(notes.path(), &[&init, &option, &plugins, "--config", "team.toml"]).await;
    assert!(code == 0 && err.contains("`mcp-host check --config team.toml`"), "{err}");
    assert_eq!(run_in(notes.path(), &["check", "--strict", "--config", "team.toml"]).await.0, 0);
}

#[tokio::test]
async fn a_directory_that_a_config_cannot_name_is_named_relatively_or_refused() {
    let parent = Folder::with_files::<&str, &str>([]);
    let dir = parent.path().join(OsStr::from_bytes(b"bad\xff"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("a.md"), "# A\n").unwrap();
    let [init_command, option, plugins] = init_arguments();
    let elsewhere = parent.path().join("elsewhere.toml");
    let arguments = [&*init_command, &option, &plugins, "--config", elsewhere.to_str().unwrap()];
    let (code, _, err) = run_in(&dir, &arguments).await;
    assert!(code == 1 && err.contains("is not UTF-8"), "{err}");
    assert!(!elsewhere.exists());
    assert_eq!(init(&dir).await.0, 0);
    let (code, _, err) = run_in(&dir, &["check", "--strict"]).await;
    assert_eq!(code, 0, "{err}");
}

#[tokio::test]
async fn a_folder_without_markdown_among_its_first_files_is_one_of_files() {
    let files = (0..60).flat_map(|dir| (0..200).map(move |file| (format!("d{dir}/f{file}.txt"), "")));
    let folder = Folder::with_files(files.collect::<Vec<_>>());
    let (code, _, err) = init(folder.path()).await;
    assert_eq!(code, 0, "{err}");
    let config = std::fs::read_to_string(folder.path().join("mcp-host.toml")).unwrap();
    assert!(config.contains("name = \"files\"") && !config.contains("name = \"notes\""), "{config}");
}

#[tokio::test]
async fn a_working_directory_that_is_gone_is_named() {
    let folder = Folder::with_files::<&str, &str>([]);
    let gone = folder.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let script = r#"rmdir "$PWD" && exec "$0" init"#;
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", script]).arg(host_binary()).current_dir(&gone);
    let output = shell.output().await.unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.contains("the current directory cannot be determined"), "{err}");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let empty = Folder::with_files::<&str, &str>([]);
    let [init_command, option, plugins] = init_arguments();
    let (code, _, err) = run_in(empty.path(), &[&init_command, "absent", &option, &plugins]).await;
    assert!(code == 2 && err.contains("`absent` cannot be served"), "{err}");
    let notes = Folder::with_files([("a.md", "# A\n")]);
    let (code, _, err) = run_in(notes.path(), &["init", "--plugins", "nowhere"]).await;
    assert!(code == 1 && err.contains("`notes.wasm`") && err.contains("`mcp-host init --plugins DIR`"), "{err}");
    assert!(!notes.path().join("mcp-host.toml").exists());
}
