//! The environment of a program: granted variables, and those that every program expects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::namespaces::PROXY_PORT;

/// The search path of the system's programs.
pub(super) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables that name the proxy. Programs disagree on the case.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];

/// Returns the variables of a program. Granted ones take precedence.
pub(super) fn environment(
    granted: &BTreeMap<String, String>,
    program_dirs: &[PathBuf],
    home: &Path,
    has_proxy: bool,
) -> BTreeMap<String, String> {
    let dirs = program_dirs.iter().filter_map(|dir| dir.to_str()).filter(|dir| !dir.contains(':'));
    let path = dirs.chain([SYSTEM_PATH]).collect::<Vec<_>>().join(":");
    let home = home.display().to_string();
    let mut all = BTreeMap::from([
        ("HOME".to_owned(), home.clone()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("PATH".to_owned(), path),
        ("TMPDIR".to_owned(), home),
    ]);
    if has_proxy {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        all.extend(PROXY_VARIABLES.map(|name| (name.to_owned(), proxy.clone())));
        let own = "localhost,127.0.0.1,::1";
        all.extend(["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), own.to_owned())));
        all.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
    }
    all.extend(granted.clone());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_has_what_is_granted_and_names_the_proxy() {
        let granted = BTreeMap::from([("TOKEN".to_owned(), "t".to_owned()), ("LANG".to_owned(), "de".to_owned())]);
        let all = environment(&granted, &["/opt/a/bin".into()], Path::new("/tmp"), false);
        let text: Vec<_> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let path = format!("PATH=/opt/a/bin:{SYSTEM_PATH}");
        assert_eq!(text, ["HOME=/tmp", "LANG=de", &path, "TMPDIR=/tmp", "TOKEN=t"]);
        let all = environment(&granted, &[], Path::new("/tmp"), true);
        assert_eq!(all["https_proxy"], "http://127.0.0.1:3128");
        assert_eq!(all["NODE_USE_ENV_PROXY"], "1");
    }
}
