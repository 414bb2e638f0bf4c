//! `git cat-file --batch`: one native process that keeps a pack mapped and serves read after read.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::git_pack_fixture::{self, GitPack};

/// The process.
pub(crate) struct CatFile {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl CatFile {
    pub(crate) fn start(pack: &GitPack) -> Self {
        let mut command = git_pack_fixture::git(pack.path());
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("git runs");
        let stdin = child.stdin.take().expect("it is a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self { child, stdin, stdout }
    }

    /// Reads an object to its end.
    pub(crate) fn read(&mut self, object: &str) {
        writeln!(self.stdin, "{object}").expect("git reads");
        let mut head = String::new();
        self.stdout.read_line(&mut head).expect("git answers");
        let size: usize = head.trim_end().rsplit(' ').next().and_then(|size| size.parse().ok()).expect("a size");
        // A line feed follows the content.
        let mut content = vec![0; size + 1];
        self.stdout.read_exact(&mut content).expect("the content");
    }

    /// Ends the process.
    pub(crate) fn end(mut self) {
        drop(self.stdin);
        self.child.wait().expect("git ends");
    }
}
