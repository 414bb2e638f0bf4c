//! The part of the host's file system that a program sees.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use mcp_host_child::{Directory, EndReason, Launcher, Spec, SpecError};

use crate::harness::{first_line, has_namespaces, launcher, program, python, read, run, shell};

/// A directory that every user may use, because the program may have another user than this process.
fn shared_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

#[tokio::test]
async fn a_program_sees_nothing_of_the_host_but_the_system_programs() {
    if !has_namespaces() {
        return;
    }
    let dir = shared_dir();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    let script = format!(
        "cat {}/secret; cat /etc/shadow /etc/hostname /proc/1/environ; for d in /root /home /var /srv /opt /work /sys; do \
         test -e $d && echo there: $d; done; cat /etc/passwd; true",
        dir.path().display()
    );
    let said = run(shell(&script)).await;
    assert!(!said.stdout.contains("secret") && !said.stdout.contains("there:"), "{said:?}");
    let users: Vec<_> = said.stdout.lines().collect();
    assert!(users.len() == 1 && users[0].starts_with("user:x:"), "{said:?}");
}

#[tokio::test]
async fn a_program_writes_to_nothing_but_its_bounded_tmp() {
    if !has_namespaces() {
        return;
    }
    let script = "for d in / /usr /usr/bin /etc /dev /proc /proc/sys/kernel; do (echo x > $d/written) 2>/dev/null && echo written: $d; done
        (echo x > /etc/passwd) 2>/dev/null && echo written: passwd
        echo kept > /tmp/a && cat /tmp/a && pwd
        head -c 3000000 /dev/zero > /tmp/big || echo full
        cp /bin/true /tmp/true 2>/dev/null; /tmp/true 2>/dev/null || echo not executed";
    let mut spec = shell(script);
    spec.limits.temp = 1 << 20;
    let said = run(spec).await;
    assert_eq!(said.stdout, "kept\n/tmp\nfull\nnot executed\n", "{said:?}");
}

#[tokio::test]
async fn a_granted_directory_is_read_and_written_to_as_it_says() {
    if !has_namespaces() {
        return;
    }
    let (read, write) = (shared_dir(), shared_dir());
    fs::write(read.path().join("f"), "text\n").unwrap();
    let script = format!(
        "cat {read}/f; (echo x > {read}/g) 2>/dev/null || echo read-only; echo new > /data/inner/h && cat /data/inner/h
        cp /bin/true /data/inner/true; /data/inner/true 2>/dev/null || echo not executed; ls {write} 2>/dev/null || echo moved",
        read = read.path().display(),
        write = write.path().display()
    );
    let mut spec = shell(&script);
    let guest = Some("/data/inner".into());
    spec.directories =
        vec![Directory::read_only(read.path()), Directory { guest, ..Directory::writable(write.path()) }];
    let said = run(spec).await;
    assert_eq!(said.stdout, "text\nread-only\nnew\nnot executed\nmoved\n", "{said:?}");
    assert_eq!(fs::read_to_string(write.path().join("h")).unwrap(), "new\n");
    assert!(!read.path().join("g").exists());
}

#[tokio::test]
async fn a_link_in_a_granted_directory_leads_to_nothing_outside() {
    if !has_namespaces() {
        return;
    }
    let (granted, other) = (shared_dir(), shared_dir());
    fs::write(other.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(other.path().join("secret"), granted.path().join("link")).unwrap();
    let mut spec = shell(&format!(
        "cat {0}/link {0}/../{1}/secret",
        granted.path().display(),
        other.path().file_name().unwrap().display()
    ));
    spec.directories.push(Directory::read_only(granted.path()));
    let said = run(spec).await;
    assert_eq!((said.stdout.as_str(), said.outcome.reason.clone()), ("", EndReason::Exit(1)), "{said:?}");
}

#[tokio::test]
async fn a_directory_below_another_is_not_made_on_the_host() {
    if !has_namespaces() {
        return;
    }
    let (outer, inner) = (shared_dir(), shared_dir());
    let mut spec = shell("true");
    let guest = |path: &str| Some(Path::new("/data").join(path));
    spec.directories = vec![
        Directory { guest: guest(""), ..Directory::writable(outer.path()) },
        Directory { guest: guest("inner"), ..Directory::read_only(inner.path()) },
    ];
    let error = program(spec.clone()).launch().await.unwrap_err().to_string();
    assert!(error.contains("/data/inner") && error.contains("does not exist"), "{error}");
    assert!(!outer.path().join("inner").exists());
    fs::create_dir(outer.path().join("inner")).unwrap();
    run(spec).await.success();
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    if !has_namespaces() {
        return;
    }
    let mut spec = shell("true");
    spec.directories.push(Directory::read_only("/no/such/directory"));
    let error = program(spec).launch().await.unwrap_err().to_string();
    assert!(error.contains("/no/such/directory"), "{error}");
    let error = program(mcp_host_child::Spec::new(["/no/such/program"])).launch().await.unwrap_err().to_string();
    assert!(error.contains("/no/such/program"), "{error}");
    assert!(matches!(launcher().program(mcp_host_child::Spec::new(["npx", "x"])), Err(SpecError::Fetcher(_))));
}

#[tokio::test]
async fn a_program_that_may_write_to_its_own_script_does_not_start() {
    if !has_namespaces() {
        return;
    }
    let dir = shared_dir();
    let script = dir.path().join("main.sh");
    fs::write(&script, "echo started\n").unwrap();
    let mut spec = Spec::new(["/bin/sh", script.to_str().unwrap()]);
    assert_eq!(run(spec.clone()).await.success(), "started\n");
    spec.directories = vec![Directory::writable(dir.path())];
    let error = program(spec).launch().await.unwrap_err().to_string();
    assert!(error.contains("may write to"), "{error}");
}

#[tokio::test]
async fn a_program_in_a_directory_that_others_may_write_to_does_not_start() {
    if !has_namespaces() {
        return;
    }
    let (dir, other) = (shared_dir(), shared_dir());
    let script = dir.path().join("main.sh");
    fs::write(&script, "echo started\n").unwrap();
    let mut spec = Spec::new(["/bin/sh", script.to_str().unwrap()]);
    spec.writable_by_others = Arc::new([dir.path().join("gone"), other.path().to_owned()].into());
    assert_eq!(run(spec.clone()).await.success(), "started\n");
    spec.writable_by_others = Arc::new([dir.path().to_owned()].into());
    let error = program(spec).launch().await.unwrap_err().to_string();
    assert!(error.contains("which another program or plugin may write to"), "{error}");
}

#[tokio::test]
async fn what_others_are_granted_beside_a_program_is_hidden_unless_the_program_is_granted_it() {
    if !has_namespaces() {
        return;
    }
    let dir = shared_dir();
    let at = |name: &str| dir.path().join(name);
    for name in ["data", "notes"] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("f"), format!("{name}\n")).unwrap();
    }
    fs::write(at("module"), "module\n").unwrap();
    let script = "cd \"$(dirname \"$0\")\"; cat module data/f notes/f 2>/dev/null; exit 0\n";
    fs::write(at("main.sh"), script).unwrap();
    let mut spec = Spec::new(["/bin/sh", at("main.sh").to_str().unwrap()]);
    assert_eq!(run(spec.clone()).await.success(), "module\ndata\nnotes\n");
    // A directory with the files of the program is not hidden.
    spec.granted_to_others = Arc::new([dir.path().to_owned(), at("data"), at("notes")].into());
    assert_eq!(run(spec.clone()).await.success(), "module\n");
    spec.directories = vec![Directory { guest: Some("/data".into()), ..Directory::read_only(at("data")) }];
    assert_eq!(run(spec).await.success(), "module\ndata\n");
}

#[tokio::test]
async fn the_path_of_a_directory_on_the_host_may_lead_through_the_directory_above() {
    if !has_namespaces() {
        return;
    }
    let dir = shared_dir();
    for name in ["config", "data"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("data/f"), "text\n").unwrap();
    let mut spec = shell("cat /data/f");
    let host = dir.path().join("config/../data");
    spec.directories.push(Directory { guest: Some("/data".into()), ..Directory::read_only(host) });
    assert_eq!(run(spec).await.success(), "text\n");
}

#[tokio::test]
async fn a_program_does_not_execute_what_it_writes_beside_its_own_files() {
    if !has_namespaces() {
        return;
    }
    let dir = shared_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("data")).unwrap();
    fs::set_permissions(at("data"), fs::Permissions::from_mode(0o777)).unwrap();
    let script = format!(
        "cp /bin/true /data/true; for f in /data/true {}/true; do $f 2>/dev/null || echo not executed; done\n",
        at("data").display()
    );
    fs::write(at("main.sh"), script).unwrap();
    let main = at("main.sh");
    let mut spec = Spec::new(["/bin/sh", main.to_str().unwrap()]);
    spec.directories = vec![Directory { guest: Some("/data".into()), ..Directory::writable(at("data")) }];
    assert_eq!(run(spec).await.success(), "not executed\nnot executed\n");
}

#[tokio::test]
async fn a_script_is_started_with_the_files_beside_it() {
    if !has_namespaces() {
        return;
    }
    let dir = shared_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("app/node_modules/server")).unwrap();
    fs::create_dir_all(at("app/node_modules/.bin")).unwrap();
    fs::write(
        at("app/node_modules/server/main"),
        "#!/usr/bin/env sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/data\"; ls ..\n",
    )
    .unwrap();
    fs::write(at("app/node_modules/server/data"), "data\n").unwrap();
    fs::write(at("app/secret"), "").unwrap();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(at("app/node_modules/server/main"), executable).unwrap();
    std::os::unix::fs::symlink("../server/main", at("app/node_modules/.bin/server")).unwrap();
    let command = at("app/node_modules/.bin/server").to_str().unwrap().to_owned();
    let said = run(mcp_host_child::Spec::new([command])).await;
    assert_eq!(said.stdout.lines().next(), Some("data"), "{said:?}");
    assert!(!said.stdout.contains("secret"), "{said:?}");
}

/// A script that reads the files beside it: when it starts, and when its input ends.
const READER: &str = r#"
cd "$(dirname "$0")"
. ./lib.sh
before=$(attempts)
echo ready
read -r line
echo "$before"
attempts
ls
"#;
/// The part of [`READER`] that is a file beside it.
const LIB: &str = r#"
attempts() {
    for file in sub/module secret copy link state/key sub/token later; do cat "$file" 2>/dev/null; done
}
"#;

/// Starts [`READER`] beside files, which are hidden if `hides`, and replaces the files while it runs. Returns the lines
/// that it read at the start, and those after the replacement.
pub(crate) async fn read_beside(launcher: &Launcher, hides: bool) -> (Vec<String>, Vec<String>) {
    let dir = shared_dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    fs::create_dir(at("state")).unwrap();
    let secrets = ["secret", "state/key", "sub/token"];
    for file in secrets {
        fs::write(at(file), "hidden\n").unwrap();
    }
    for (file, text) in [("reader.sh", READER), ("lib.sh", LIB), ("sub/module", "module\n")] {
        fs::write(at(file), text).unwrap();
    }
    fs::hard_link(at("secret"), at("copy")).unwrap();
    std::os::unix::fs::symlink("sub/token", at("link")).unwrap();
    let mut spec = Spec::new(["/bin/sh", at("reader.sh").to_str().unwrap()]);
    if hides {
        let hidden = ["secret", "state", "sub/token", "later"];
        spec.hidden = Arc::new(hidden.map(at).into());
    }
    let mut child = launcher.program(spec).unwrap().launch().await.unwrap();
    assert_eq!(first_line(&mut child).await, "ready");
    for file in secrets {
        fs::write(at("new"), "replaced\n").unwrap();
        fs::rename(at("new"), at(file)).unwrap();
    }
    fs::write(at("later"), "later\n").unwrap();
    let lines = read(child).await.success();
    let mut lines: Vec<_> = lines.lines().map(str::to_owned).collect();
    let after = lines.split_off(lines.iter().rposition(|line| line == "module").unwrap());
    (lines, after)
}

#[tokio::test]
async fn files_of_the_host_beside_a_program_are_hidden_also_after_they_are_replaced() {
    if !has_namespaces() {
        return;
    }
    let (before, after) = read_beside(launcher(), false).await;
    assert_eq!(before, ["module", "hidden", "hidden", "hidden", "hidden", "hidden"]);
    assert!(after.contains(&"replaced".to_owned()), "{after:?}");
    let (before, after) = read_beside(launcher(), true).await;
    assert_eq!(before, ["module"]);
    // A link to a hidden file leads to nothing.
    assert_eq!(after, ["module", "lib.sh", "link", "reader.sh", "sub"]);
}

#[tokio::test]
async fn a_program_starts_although_files_beside_it_are_removed_meanwhile() {
    if !has_namespaces() {
        return;
    }
    let dir = shared_dir();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("reader.sh"), "echo started\n").unwrap();
    fs::write(at("secret"), "").unwrap();
    let temporary: Vec<_> = (0..200).map(|number| at(&format!("temporary.{number}"))).collect();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let editor = std::thread::spawn(move || {
        while is_done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            temporary.iter().for_each(|file| fs::write(file, "").unwrap());
            temporary.iter().for_each(|file| fs::remove_file(file).unwrap());
        }
    });
    let mut spec = Spec::new(["/bin/sh", at("reader.sh").to_str().unwrap()]);
    spec.hidden = std::sync::Arc::new([at("secret")].into());
    for _ in 0..20 {
        assert_eq!(run(spec.clone()).await.success(), "started\n");
    }
    drop(done);
    editor.join().unwrap();
}

#[tokio::test]
async fn a_program_inherits_no_descriptor_and_no_variable() {
    if !has_namespaces() {
        return;
    }
    let Some(mut spec) = python("import os; print(sorted(os.listdir('/proc/self/fd'))); print(sorted(os.environ))")
    else {
        return;
    };
    spec.environment.insert("TOKEN".to_owned(), "t".to_owned());
    let said = run(spec).await.success();
    // The fourth is the directory itself.
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("['0', '1', '2', '3']"));
    assert_eq!(lines.next(), Some("['HOME', 'LANG', 'PATH', 'TMPDIR', 'TOKEN']"));
}

#[tokio::test]
async fn a_program_leaves_no_file_that_others_execute_with_its_rights() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import os
def attempt(what, function):
    try:
        function()
        print(what, "done")
    except OSError as error:
        print(what, error.errno)
def create(mode, flags=os.O_CREAT):
    os.umask(0)
    os.close(os.open("/tmp/%o" % mode, os.O_RDWR | flags, mode))
attempt("create", lambda: create(0o755))
attempt("create as a user", lambda: create(0o4755))
attempt("create as a group", lambda: create(0o2755))
attempt("temporary", lambda: os.close(os.open("/tmp", os.O_RDWR | os.O_TMPFILE, 0o4755)))
attempt("change", lambda: os.chmod("/tmp/755", 0o700))
attempt("change to a user", lambda: os.chmod("/tmp/755", 0o6755))
with open("/tmp/755") as file:
    attempt("change it open", lambda: os.chmod(file.fileno(), 0o4755))
attempt("directory", lambda: os.mkdir("/tmp/d", 0o1777))
"#;
    let Some(spec) = python(script) else { return };
    let expected = "create done\ncreate as a user 1\ncreate as a group 1\ntemporary 1\nchange done\nchange to a user 1\nchange it open 1\ndirectory done\n";
    assert_eq!(run(spec).await.success(), expected);
}
