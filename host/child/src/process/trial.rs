//! Detects the kernel's features by a trial in a child process.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use landlock::{LandlockStatus, RestrictSelf};
use rustix::process::{WaitOptions, geteuid, waitpid};

use super::{mounts, namespaces, privileges, sys};
use crate::kernel::{Kernel, Lack};
use crate::message::{receive, send};

/// The first version of Landlock that restricts signals and abstract Unix sockets.
const SCOPES_ABI: u32 = 6;

/// Detects the features of the kernel.
pub(super) fn kernel() -> Kernel {
    let mut lacks = Vec::new();
    let landlock_abi = match RestrictSelf::default().apply().map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, kernel_abi }) => {
            kernel_abi.and_then(|abi| abi.try_into().ok()).or(Some(effective_abi as u32))
        }
        _ => None,
    };
    match landlock_abi {
        None => lacks.push(Lack::Landlock),
        Some(abi) if abi < SCOPES_ABI => lacks.push(Lack::Scopes(abi)),
        Some(_) => {}
    }
    let seccomp = sys::has_seccomp();
    if !seccomp {
        lacks.push(Lack::Seccomp);
    }
    let of_namespaces = try_namespaces().unwrap_or_else(|error| vec![Lack::Namespaces(error.to_string())]);
    let namespaces = !of_namespaces.iter().any(|lack| matches!(lack, Lack::Namespaces(_)));
    lacks.extend(of_namespaces);
    Kernel { landlock_abi, seccomp, namespaces, lacks }
}

/// Creates all namespaces in a separate process.
fn try_namespaces() -> io::Result<Vec<Lack>> {
    let (ours, theirs) = UnixStream::pair()?;
    let Some(child) = sys::fork()? else {
        sys::close(&ours);
        let lacks = enter_and_try(&theirs).unwrap_or_else(|reason| vec![Lack::Namespaces(reason)]);
        let _ = send(&theirs, &lacks, &[]);
        sys::exit(0);
    };
    drop(theirs);
    let lacks = receive(&ours);
    let _ = waitpid(Some(child), WaitOptions::empty());
    let (lacks, _) = lacks?.ok_or_else(|| io::Error::other("the trial was killed"))?;
    Ok(lacks)
}

/// The supervisor's part of the trial.
fn enter_and_try(report: &UnixStream) -> Result<Vec<Lack>, String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("{what}: {error}")
    };
    let is_root = geteuid().is_root();
    if !is_root {
        namespaces::enter_user_namespace().map_err(failed("user namespace"))?;
    }
    namespaces::unshare_processes().map_err(failed("process namespace"))?;
    let (mut reader, writer) = io::pipe().map_err(failed("pipe"))?;
    let Some(child) = sys::fork().map_err(failed("process namespace"))? else {
        sys::close(report);
        let lacks = try_inside(is_root).unwrap_or_else(|reason| vec![Lack::Namespaces(reason)]);
        let _ = serde_json::to_vec(&lacks).map(|json| (&writer).write_all(&json));
        sys::exit(0);
    };
    drop(writer);
    let lacks = serde_json::from_reader(&mut reader).map_err(|error| format!("the trial was killed: {error}"));
    let _ = waitpid(Some(child), WaitOptions::empty());
    lacks
}

/// The init's part of the trial.
fn try_inside(is_root: bool) -> Result<Vec<Lack>, String> {
    namespaces::unshare_rest().map_err(|error| format!("mount and network namespaces: {error}"))?;
    let mut lacks = mounts::try_out()?;
    namespaces::set_up_loopback().map_err(|error| format!("loopback interface: {error}"))?;
    if is_root {
        let nobody = privileges::User { user: super::plan::NOBODY, group: super::plan::NOBODY };
        nobody.enter().map_err(|error| format!("user: {error}"))?;
        if let Err(error) = namespaces::enter_user_namespace() {
            lacks.push(Lack::UserNamespace(error.to_string()));
        }
    }
    privileges::drop_capabilities().map_err(|error| format!("capabilities: {error}"))?;
    Ok(lacks)
}
