//! Actions that consist of one or a few calls of `wasi:filesystem`.

use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, NewTimestamp, OpenFlags, PathFlags, filesystem_error_code,
};
use wasip2::io::streams::{OutputStream, StreamError};

use crate::Outcome;
use crate::command::Command;

/// The maximum number of bytes that the host reads or writes per call.
const CHUNK: u64 = 4096;

/// Runs the action, if it belongs to this module.
pub(crate) fn try_run(command: &Command) -> Option<Outcome> {
    let path = &*command.path;
    let said = |result: Result<(), ErrorCode>| result.map(|()| "ok".to_owned()).map_err(name);
    let in_dir = |action: &dyn Fn(Descriptor) -> Outcome| command.dir().and_then(action);
    let with_file = |action: &dyn Fn(Descriptor) -> Outcome| open(command).and_then(action);
    Some(match &*command.action {
        "open" => open(command).map(|_| "ok".to_owned()),
        "read" => open(command).and_then(|file| text(&file)),
        "list" => open(command).and_then(|dir| list(&dir)),
        "write" => {
            with_file(&|file| file.write(&chunk(command.size), command.at).map(|_| "ok".to_owned()).map_err(name))
        }
        "stream" => with_file(&|file| copy(file.write_via_stream(command.at).map_err(name)?, command.size)),
        "append" => with_file(&|file| copy(file.append_via_stream().map_err(name)?, command.size)),
        "set-size" => with_file(&|file| said(file.set_size(command.size))),
        "set-times" => with_file(&|file| said(file.set_times(NewTimestamp::Now, NewTimestamp::Now))),
        "size" => with_file(&|file| file.stat().map(|found| found.size.to_string()).map_err(name)),
        "stat" => in_dir(&|dir| dir.stat_at(follow(command), path).map(|found| kind(found.type_)).map_err(name)),
        "hash" => in_dir(&|dir| dir.metadata_hash_at(follow(command), path).map(|_| "ok".to_owned()).map_err(name)),
        "readlink" => in_dir(&|dir| dir.readlink_at(path).map_err(name)),
        "mkdir" => in_dir(&|dir| said(dir.create_directory_at(path))),
        "rmdir" => in_dir(&|dir| said(dir.remove_directory_at(path))),
        "unlink" => in_dir(&|dir| said(dir.unlink_file_at(path))),
        "symlink" => in_dir(&|dir| said(dir.symlink_at(&command.to, path))),
        "touch" => in_dir(&|dir| said(dir.set_times_at(follow(command), path, NewTimestamp::Now, NewTimestamp::Now))),
        "link" => in_dir(&|dir| said(dir.link_at(PathFlags::empty(), path, &command.to_dir()?, &command.to))),
        "rename" => in_dir(&|dir| said(dir.rename_at(path, &command.to_dir()?, &command.to))),
        _ => return None,
    })
}

/// Returns the standard's name of an error.
#[allow(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
pub(crate) fn name(error: ErrorCode) -> String {
    error.name().to_owned()
}

/// Opens the command's path for reading, or according to its flags.
pub(crate) fn open(command: &Command) -> Result<Descriptor, String> {
    let mut flags = OpenFlags::empty();
    flags.set(OpenFlags::CREATE, command.has_flag("create"));
    flags.set(OpenFlags::EXCLUSIVE, command.has_flag("exclusive"));
    flags.set(OpenFlags::TRUNCATE, command.has_flag("truncate"));
    flags.set(OpenFlags::DIRECTORY, command.has_flag("directory"));
    let mut access = DescriptorFlags::READ;
    access.set(DescriptorFlags::WRITE, command.has_flag("write"));
    access.set(DescriptorFlags::READ, !command.has_flag("write-only"));
    command.dir()?.open_at(follow(command), &command.path, flags, access).map_err(name)
}

fn follow(command: &Command) -> PathFlags {
    if command.has_flag("nofollow") { PathFlags::empty() } else { PathFlags::SYMLINK_FOLLOW }
}

/// Reads the beginning of a file.
pub(crate) fn text(file: &Descriptor) -> Outcome {
    let (bytes, _) = file.read(CHUNK, 0).map_err(name)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lists a directory, sorted: `regular-file a.txt`.
fn list(dir: &Descriptor) -> Outcome {
    let entries = dir.read_directory().map_err(name)?;
    let mut lines = Vec::new();
    while let Some(entry) = entries.read_directory_entry().map_err(name)? {
        lines.push(format!("{} {}", kind(entry.type_), entry.name));
    }
    lines.sort();
    Ok(lines.join("\n"))
}

fn kind(kind: DescriptorType) -> String {
    let name = match kind {
        DescriptorType::Unknown => "unknown",
        DescriptorType::BlockDevice => "block-device",
        DescriptorType::CharacterDevice => "character-device",
        DescriptorType::Directory => "directory",
        DescriptorType::Fifo => "fifo",
        DescriptorType::SymbolicLink => "symbolic-link",
        DescriptorType::RegularFile => "regular-file",
        DescriptorType::Socket => "socket",
    };
    name.to_owned()
}

pub(crate) fn chunk(size: u64) -> Vec<u8> {
    vec![b'x'; usize::try_from(size).unwrap_or_default()]
}

/// Writes a number of bytes to a stream.
pub(crate) fn copy(stream: OutputStream, size: u64) -> Outcome {
    let mut left = size;
    while left > 0 {
        let now = left.min(CHUNK);
        stream.blocking_write_and_flush(&chunk(now)).map_err(|error| stream_error(&error))?;
        left = left.saturating_sub(now);
    }
    Ok("ok".to_owned())
}

fn stream_error(error: &StreamError) -> String {
    match error {
        StreamError::Closed => "closed".to_owned(),
        StreamError::LastOperationFailed(error) => match filesystem_error_code(error) {
            Some(code) => name(code),
            None => "not a file system error".to_owned(),
        },
    }
}
