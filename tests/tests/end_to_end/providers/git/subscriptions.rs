//! For every change that the command `git` makes to a repository, exactly the changed resources are notified.

use std::collections::BTreeSet;

use mcp_host_tests::{ConfigFile, GitRepo, Plugin, RawStdio, Revision, WrittenConfig};
use serde_json::json;

const SUBSCRIBED: [&str; 8] = [
    "git://g/blob/HEAD/a.txt",
    "git://g/blob/HEAD/b.txt",
    "git://g/blob/main/a.txt",
    "git://g/blob/topic/a.txt",
    "git://g/commit/HEAD",
    "git://g/commit/main",
    "git://g/commit/topic",
    "git://g/log/topic",
];
/// The URI that is notified last in a batch: the last one in sort order.
const BARRIER: &str = "git://g/log/zz-barrier";

/// A session that watches a repository.
struct GitWatcher<'a> {
    wire: RawStdio,
    repo: &'a GitRepo,
    _config: WrittenConfig,
    /// The next two targets of the branch `zz-barrier`.
    barriers: [String; 2],
}

impl<'a> GitWatcher<'a> {
    async fn start(repo: &'a GitRepo, bells: [String; 2]) -> Self {
        let config = ConfigFile::new().plugin(Plugin::git("g", repo.path()).set("watch-interval", "100ms")).write();
        let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        for uri in SUBSCRIBED.into_iter().chain([BARRIER]) {
            wire.request("resources/subscribe", json!({ "uri": uri })).await.result();
        }
        Self { wire, repo, _config: config, barriers: bells }
    }

    /// Runs `git`, and returns the resulting notifications.
    async fn updates_after_git<const N: usize>(&mut self, arguments: [&str; N]) -> BTreeSet<String> {
        self.repo.git(arguments);
        self.drain_updates().await
    }

    /// Commits the work tree, and returns the resulting notifications.
    async fn updates_after_commit(&mut self) -> BTreeSet<String> {
        self.repo.commit("more");
        self.drain_updates().await
    }

    /// Returns the notifications so far: the ones before the notification of the barrier, which is changed now.
    async fn drain_updates(&mut self) -> BTreeSet<String> {
        self.repo.git(["branch", "--force", "zz-barrier", &self.barriers[0]]);
        self.barriers.reverse();
        let mut told = BTreeSet::new();
        loop {
            let update = self.wire.notification("notifications/resources/updated").await;
            let uri = update["params"]["uri"].as_str().unwrap().to_owned();
            if uri == BARRIER {
                return told;
            }
            told.insert(uri);
        }
    }
}

#[tokio::test]
async fn exactly_what_became_another_object_is_told() {
    let repo = GitRepo::with_files([("a.txt", "one"), ("b.txt", "one")]);
    repo.git(["branch", "topic"]);
    repo.git(["checkout", "--quiet", "-b", "zz-barrier"]);
    let bells = ["ding", "dong"].map(|text| {
        repo.worktree().write("a.txt", text);
        repo.commit(text)
    });
    repo.git(["checkout", "--quiet", "main"]);
    let mut watcher = GitWatcher::start(&repo, bells).await;
    let set = |uris: &[&str]| uris.iter().map(|uri| format!("git://g/{uri}")).collect::<BTreeSet<_>>();

    repo.worktree().write("a.txt", "two");
    assert_eq!(watcher.drain_updates().await, set(&[]), "the work tree is not what is served");
    let told = watcher.updates_after_commit().await;
    assert_eq!(told, set(&["blob/HEAD/a.txt", "blob/main/a.txt", "commit/HEAD", "commit/main"]));
    let told = watcher.updates_after_git(["commit", "--quiet", "--allow-empty", "--message", "nothing"]).await;
    assert_eq!(told, set(&["commit/HEAD", "commit/main"]));
    let told = watcher.updates_after_git(["branch", "--force", "topic", "main"]).await;
    assert_eq!(told, set(&["blob/topic/a.txt", "commit/topic", "log/topic"]));

    assert_eq!(watcher.updates_after_git(["pack-refs", "--all"]).await, set(&[]), "packed");
    repo.worktree().write("b.txt", "two");
    let told = watcher.updates_after_commit().await;
    assert_eq!(told, set(&["blob/HEAD/b.txt", "commit/HEAD", "commit/main"]), "one that was packed moves");

    let told = watcher.updates_after_git(["checkout", "--quiet", "topic"]).await;
    assert_eq!(told, set(&["blob/HEAD/b.txt", "commit/HEAD"]), "HEAD is switched");
    assert_eq!(watcher.updates_after_git(["checkout", "--quiet", "--detach"]).await, set(&[]), "to the same commit");
    let told = watcher.updates_after_git(["branch", "--quiet", "-D", "main"]).await;
    assert_eq!(told, set(&["blob/main/a.txt", "commit/main"]), "one goes away");
    let told = watcher.updates_after_git(["branch", "main", "topic"]).await;
    assert_eq!(told, set(&["blob/main/a.txt", "commit/main"]), "it is back");
    let told = watcher.updates_after_git(["tag", "v1"]).await;
    assert_eq!(told, set(&[]), "a tag concerns nobody who does not name it");
    watcher.wire.end().await;
}
