//! Checks the preparation, if the provider exports `prepare`. It comes first: other checks need the prepared data.

use mcp_host_engine::plugin::PreparationState;

use super::{Check, Session, advice};

pub(super) async fn check(session: &mut Session<'_>) {
    let Some(status) = session.prepare().await else {
        return session.report.skip(Check::Prepare, "it does not export `prepare`");
    };
    match &status.state {
        PreparationState::Off => session.report.skip(Check::Prepare, advice::MUST_BE_PREPARED),
        PreparationState::Failing(reason) => {
            let message = format!("call {} of the preparation: {reason}", status.calls);
            session.report.provider_failure(Check::Prepare, message);
        }
        PreparationState::Stopped(reason) => {
            let message = format!("it is not prepared after {} calls: {reason}", status.calls);
            session.report.problem(Check::Prepare, message);
        }
        PreparationState::Done | PreparationState::Waiting | PreparationState::Running => {
            let calls = if status.calls == 1 { "1 call".to_owned() } else { format!("{} calls", status.calls) };
            let cpu = format!("{:.0} ms", status.cpu.as_secs_f64() * 1000.0);
            session.report.note(Check::Prepare, format!("prepared: {calls}, {cpu} of CPU time"));
        }
    }
}
