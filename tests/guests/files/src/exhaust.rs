//! Actions that exceed a limit. Their output is `COUNT, NAME OF THE ERROR` if the host rejects them; there is none if
//! the host terminates them.

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};
use wasip2::random::random::get_random_bytes;

use crate::Outcome;
use crate::actions::{chunk, copy, name, open, text};
use crate::command::Command;

/// Runs the action, if it belongs to this module.
pub(crate) fn try_run(command: &Command) -> Option<Outcome> {
    Some(match &*command.action {
        "open-many" => until_refused(|_| open(command)),
        "list-many" => open(command).and_then(|dir| until_refused(|_| dir.read_directory().map_err(name))),
        "stream-many" => open(command).and_then(|file| until_refused(|_| file.read_via_stream(0).map_err(name))),
        "stream-of-many" => until_refused(|_| open(command)?.read_via_stream(0).map_err(name)),
        "make-many" => {
            command.dir().and_then(|dir| until_refused(|number| make(&dir, &format!("{}{number}", command.path))))
        }
        "nest-many" => command.dir().and_then(nest),
        "delete-while-open" => delete_while_open(command),
        "leak" => until_refused(|_| Ok(subscribe_duration(u64::MAX))),
        "random" => Ok(get_random_bytes(command.size).len().to_string()),
        _ => return None,
    })
}

/// Repeats an action and holds its results, until it is rejected.
fn until_refused<T>(mut action: impl FnMut(usize) -> Result<T, String>) -> Outcome {
    let mut kept = Vec::new();
    loop {
        match action(kept.len()) {
            Ok(one) => kept.push(one),
            Err(error) => return Ok(format!("{}, {error}", kept.len())),
        }
    }
}

fn make(dir: &Descriptor, path: &str) -> Result<(), String> {
    let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    dir.open_at(PathFlags::empty(), path, flags, DescriptorFlags::WRITE).map(drop).map_err(name)
}

/// Nests directories, each opened from its parent.
fn nest(mut dir: Descriptor) -> Outcome {
    let mut depth = 0_usize;
    loop {
        if let Err(error) = dir.create_directory_at("d") {
            return Ok(format!("{depth}, {}", name(error)));
        }
        depth = depth.saturating_add(1);
        let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
        dir = dir.open_at(PathFlags::empty(), "d", OpenFlags::DIRECTORY, flags).map_err(name)?;
    }
}

/// Fills a file and deletes it while it is open, then fills another one.
fn delete_while_open(command: &Command) -> Outcome {
    let file = open(command)?;
    copy(file.write_via_stream(0).map_err(name)?, command.size)?;
    let dir = command.dir()?;
    dir.unlink_file_at(&command.path).map_err(name)?;
    let second =
        dir.open_at(PathFlags::empty(), &command.to, OpenFlags::CREATE, DescriptorFlags::WRITE).map_err(name)?;
    let written = second.write(&chunk(command.size), 0).map_err(name);
    // Keeps the file open up to this point.
    text(&file)?;
    written.map(|_| "ok".to_owned())
}
