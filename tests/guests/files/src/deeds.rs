//! One call of `wasi:filesystem`, or a few.

use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, NewTimestamp, OpenFlags, PathFlags, filesystem_error_code,
};
use wasip2::io::streams::{OutputStream, StreamError};

use crate::Outcome;
use crate::order::Order;

/// The most that the host takes or gives at once.
const PIECE: u64 = 4096;

/// Does it, if it is a deed of this module.
pub(crate) fn done(order: &Order) -> Option<Outcome> {
    let path = &*order.path;
    let said = |result: Result<(), ErrorCode>| result.map(|()| "ok".to_owned()).map_err(name);
    let in_dir = |deed: &dyn Fn(Descriptor) -> Outcome| order.dir().and_then(deed);
    let with_file = |deed: &dyn Fn(Descriptor) -> Outcome| open(order).and_then(deed);
    Some(match &*order.deed {
        "open" => open(order).map(|_| "ok".to_owned()),
        "read" => open(order).and_then(|file| text(&file)),
        "list" => open(order).and_then(|dir| list(&dir)),
        "write" => with_file(&|file| file.write(&piece(order.size), order.at).map(|_| "ok".to_owned()).map_err(name)),
        "stream" => with_file(&|file| pour(file.write_via_stream(order.at).map_err(name)?, order.size)),
        "append" => with_file(&|file| pour(file.append_via_stream().map_err(name)?, order.size)),
        "set-size" => with_file(&|file| said(file.set_size(order.size))),
        "set-times" => with_file(&|file| said(file.set_times(NewTimestamp::Now, NewTimestamp::Now))),
        "size" => with_file(&|file| file.stat().map(|found| found.size.to_string()).map_err(name)),
        "stat" => in_dir(&|dir| dir.stat_at(follow(order), path).map(|found| kind(found.type_)).map_err(name)),
        "hash" => in_dir(&|dir| dir.metadata_hash_at(follow(order), path).map(|_| "ok".to_owned()).map_err(name)),
        "readlink" => in_dir(&|dir| dir.readlink_at(path).map_err(name)),
        "mkdir" => in_dir(&|dir| said(dir.create_directory_at(path))),
        "rmdir" => in_dir(&|dir| said(dir.remove_directory_at(path))),
        "unlink" => in_dir(&|dir| said(dir.unlink_file_at(path))),
        "symlink" => in_dir(&|dir| said(dir.symlink_at(&order.to, path))),
        "touch" => in_dir(&|dir| said(dir.set_times_at(follow(order), path, NewTimestamp::Now, NewTimestamp::Now))),
        "link" => in_dir(&|dir| said(dir.link_at(PathFlags::empty(), path, &order.into_dir()?, &order.to))),
        "rename" => in_dir(&|dir| said(dir.rename_at(path, &order.into_dir()?, &order.to))),
        _ => return None,
    })
}

/// The standard's name of an error.
#[allow(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
pub(crate) fn name(error: ErrorCode) -> String {
    error.name().to_owned()
}

/// Opens what the order names: to be read, or as its words say.
pub(crate) fn open(order: &Order) -> Result<Descriptor, String> {
    let mut flags = OpenFlags::empty();
    flags.set(OpenFlags::CREATE, order.says("create"));
    flags.set(OpenFlags::EXCLUSIVE, order.says("exclusive"));
    flags.set(OpenFlags::TRUNCATE, order.says("truncate"));
    flags.set(OpenFlags::DIRECTORY, order.says("directory"));
    let mut access = DescriptorFlags::READ;
    access.set(DescriptorFlags::WRITE, order.says("write"));
    access.set(DescriptorFlags::READ, !order.says("write-only"));
    order.dir()?.open_at(follow(order), &order.path, flags, access).map_err(name)
}

fn follow(order: &Order) -> PathFlags {
    if order.says("nofollow") { PathFlags::empty() } else { PathFlags::SYMLINK_FOLLOW }
}

/// The beginning of a file.
pub(crate) fn text(file: &Descriptor) -> Outcome {
    let (bytes, _) = file.read(PIECE, 0).map_err(name)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is in a directory, sorted: `regular-file a.txt`.
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

pub(crate) fn piece(size: u64) -> Vec<u8> {
    vec![b'x'; usize::try_from(size).unwrap_or_default()]
}

/// Writes that much to a stream.
pub(crate) fn pour(stream: OutputStream, size: u64) -> Outcome {
    let mut left = size;
    while left > 0 {
        let now = left.min(PIECE);
        stream.blocking_write_and_flush(&piece(now)).map_err(|error| stream_error(&error))?;
        left = left.saturating_sub(now);
    }
    Ok("ok".to_owned())
}

fn stream_error(error: &StreamError) -> String {
    match error {
        StreamError::Closed => "closed".to_owned(),
        StreamError::LastOperationFailed(error) => match filesystem_error_code(error) {
            Some(code) => name(code),
            None => "no error of a file system".to_owned(),
        },
    }
}
