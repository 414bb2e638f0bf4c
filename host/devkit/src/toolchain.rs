//! The tools that a provider is built with: whether this machine has them, and the commands that install them.
//!
//! A tool is looked for as a build looks for it: in PATH, or where a variable of the build says. Its version is
//! queried. All of that is bounded in time ([`probe`]), since a tool may hang, and the tools run concurrently.

mod install;
mod probe;
mod tool;
mod version;

use futures::future::join_all;
use serde::Serialize;

use self::install::System;
use self::tool::Tool;
use crate::language::Language;

/// Whether a tool can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is there.
    Ok,
    /// It is not there.
    Missing,
    /// It is there, in a version that is too old.
    TooOld,
    /// It is there, and failed.
    Failing,
    /// It is there, and did not answer in time, as on a busy machine.
    NoAnswer,
}

/// A tool, and what was found of it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The name of the tool.
    pub tool: &'static str,
    /// The version that is needed.
    pub needed: String,
    /// The version that was found, or the path of what has none.
    pub found: Option<String>,
    /// Whether it can be used.
    pub status: Status,
    /// What is wrong, if it is neither missing nor too old.
    pub reason: Option<String>,
    /// The command whose answer says whether it can be used, if it did not answer.
    pub check: Option<String>,
    /// What installs it on this system; none if it can be used or did not answer.
    pub install: Option<String>,
}

impl Finding {
    /// Whether the tool can be used.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
}

/// The tools of a language.
#[derive(Clone, Debug, Serialize)]
pub struct Toolchain {
    /// The language.
    pub language: Language,
    /// Whether all tools can be used.
    pub ok: bool,
    /// The tools.
    pub tools: Vec<Finding>,
}

/// Looks for the tools of a language.
pub async fn examine(language: Language) -> Toolchain {
    let system = System::current();
    let tools = join_all(tool::tools(language).iter().map(|tool| examine_tool(tool, &system))).await;
    Toolchain { language, ok: tools.iter().all(Finding::is_ok), tools }
}

async fn examine_tool(tool: &Tool, system: &System) -> Finding {
    let found = tool.find().await;
    let (status, found, reason) = match found {
        tool::Found::Usable(found) => (Status::Ok, Some(found), None),
        tool::Found::TooOld(found) => (Status::TooOld, Some(found), None),
        tool::Found::Missing => (Status::Missing, None, None),
        tool::Found::Failing(reason) => (Status::Failing, None, Some(reason)),
        tool::Found::Silent(time) => {
            (Status::NoAnswer, None, Some(format!("it did not answer within {} s", time.as_secs_f32())))
        }
    };
    let check = if status == Status::NoAnswer { tool.question() } else { None };
    let install = match status {
        Status::Ok | Status::NoAnswer => None,
        _ => Some(system.install(tool.installers, tool.oldest).await),
    };
    Finding { tool: tool.name, needed: tool.needed(), found, status, reason, check, install }
}
