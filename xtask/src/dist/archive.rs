//! Archives whose bytes depend only on names, contents and modes.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo;

/// The numeric user and group of the files in an archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner(pub(super) u32);

impl Owner {
    pub(super) const ROOT: Self = Self(0);
}

/// Returns a GNU tar command with sorted names, one time and one owner.
fn tar(owner: Owner, epoch: u64) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--numeric-owner", "--format=gnu", "--mode=u+w,go-w"]);
    tar.arg(format!("--mtime=@{epoch}")).arg(format!("--owner={}", owner.0)).arg(format!("--group={}", owner.0));
    tar.env("LC_ALL", "C");
    tar
}

/// Writes an archive of the entries of a directory. It is compressed if its name ends in `.gz`.
pub(super) fn create(archive: &Path, directory: &Path, entries: &[&str], epoch: u64) -> Result<()> {
    let mut tar = tar(Owner::ROOT, epoch);
    if archive.extension().is_some_and(|extension| extension == "gz") {
        // Without the name and the time of the input.
        tar.arg("--use-compress-program=gzip --no-name");
    }
    tar.arg("--create").arg("--file").arg(archive).arg("--directory").arg(directory).args(entries);
    cargo::capture(&mut tar).map(drop)
}

/// Appends entries with another owner to an uncompressed archive. Directories are appended without their contents.
pub(super) fn append(archive: &Path, directory: &Path, entries: &[&str], owner: Owner, epoch: u64) -> Result<()> {
    let mut tar = tar(owner, epoch);
    tar.arg("--no-recursion").arg("--append").arg("--file").arg(archive).arg("--directory").arg(directory);
    cargo::capture(tar.args(entries)).map(drop)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_same_files_give_the_same_bytes_whatever_their_order_time_and_directory() {
        let archives = [["a", "b"], ["b", "a"]].map(|names| {
            let folder = tempfile::tempdir().unwrap();
            let tree = folder.path().join("tree");
            fs::create_dir(&tree).unwrap();
            for name in names {
                fs::write(tree.join(name), format!("the file {name}")).unwrap();
            }
            let archive = folder.path().join("tree.tar.gz");
            create(&archive, folder.path(), &["tree"], 1_700_000_000).unwrap();
            fs::read(archive).unwrap()
        });
        assert_eq!(archives[0], archives[1]);
    }
}
