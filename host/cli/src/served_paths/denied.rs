//! The files of a path that the generated config denies to all clients: the config, files of environment variables,
//! private keys, and the internal files of repositories.
//!
//! Globs are matched against URIs, so they apply to the files of a commit, too. The diff of a commit is not covered: it
//! has the text of all changes.

/// Files of environment variables, which have passwords: the glob parts before and after `.env`. `files` skips most of
/// them anyway, but `notes` and `git` do not.
const ENVIRONMENT: [(&str, &str); 4] = [("**/", "*"), ("**/*", ""), ("**/*", ".*"), ("**/*", "~")];

/// The directories of repositories, whose config may have a password in a URL.
const REPOSITORIES: &str = "**/*.git/**";

/// The extensions of private keys and key stores.
const KEY_EXTENSIONS: [&str; 9] = ["pem", "key", "p8", "p12", "pfx", "jks", "keystore", "ppk", "kdbx"];

/// The usual names of private keys and key stores. Only a copy suffix may follow: `.pub` is a public key.
const KEY_NAMES: [&str; 7] =
    ["id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "secring.gpg"];

/// The suffixes of copies.
const COPIES: [&str; 4] = ["~", ".bak", ".old", ".orig"];

/// The globs of the rule that denies these files, and the bare repositories with other names, by path.
pub(super) fn globs<'p>(config_path: Option<&str>, repositories: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let config = config_path.map(|path| format!("**/{}", literal_glob(path)));
    let bare = repositories.into_iter().map(|path| format!("**/{}/**", literal_glob(path)));
    let environment = ENVIRONMENT.map(|(before, behind)| format!("{before}{}{behind}", any_case(".env")));
    let extensions = KEY_EXTENSIONS.iter().map(|extension| format!("**/*.{}", any_case(extension)));
    let keys = extensions.chain(KEY_NAMES.iter().map(|name| format!("**/{}", any_case(name))));
    let mut copies: Vec<_> = COPIES.iter().flat_map(|copy| [(*copy).to_owned(), copy.to_ascii_uppercase()]).collect();
    // A suffix without letters is the same in both cases.
    copies.dedup();
    let copies = format!("{{{}}}", copies.join(","));
    let keys = keys.flat_map(|glob| [format!("{glob}{copies}"), glob]);
    config.into_iter().chain(bare).chain([REPOSITORIES.to_owned()]).chain(environment).chain(keys).collect()
}

/// A case-insensitive glob for a word: a file system may be case-sensitive while the program that reads the file is
/// not. Globs have no character classes, so each letter is an alternation.
fn any_case(word: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphabetic() {
        true => format!("{{{},{}}}", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    word.chars().map(letter).collect()
}

/// A glob that matches this path of a URI. Characters that are special in a glob, or percent-encoded in a URI, become
/// `*`.
fn literal_glob(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '.' | '_' | '~');
    let mut glob: String = path.chars().map(|c| if is_plain(c) { c } else { '*' }).collect();
    while glob.contains("**") {
        glob = glob.replace("**", "*");
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::UriGlob;

    fn is_denied(uri: &str) -> bool {
        globs(Some("sub/my config.toml"), ["backups/bare repo"])
            .iter()
            .any(|glob| glob.parse::<UriGlob>().unwrap().matches(uri))
    }

    #[test]
    fn the_config_environment_files_and_private_keys_are_denied_at_any_depth_and_in_commits() {
        for path in
            ["sub/my%20config.toml", ".env", "prod.env", ".env.local", ".envrc", "a.pem", "tls/server.key", "B.PFX"]
        {
            for mount in ["notes:///", "files://a/", "git://a/blob/HEAD/", "git://a/blame/main/deep/"] {
                assert!(is_denied(&format!("{mount}{path}")), "{mount}{path}");
            }
        }
        for path in [
            ".ENV",
            ".Envrc",
            ".env~",
            ".env-prod",
            ".env_prod",
            "PROD.ENV",
            "Prod.Env",
            "prod.env.local",
            "prod.env~",
            "prod.env.bak",
            "Server.Pem",
            "Server.Key",
            "Id_Rsa",
            "ID_RSA",
            "id_rsa.bak",
            "id_rsa.old",
            "id_ecdsa~",
            "server.key.old",
            "server.pem.bak",
            ".eNv",
            "a.eNv.local",
            "server.pEm",
            "iD_rSa",
            "a.KeyStore",
            "backups/bare%20repo/config",
            "proj.git/config",
            "a/proj.git/refs/heads/main",
        ] {
            for mount in ["notes:///", "files://a/", "git://a/blob/HEAD/deep/"] {
                assert!(is_denied(&format!("{mount}{path}")), "{mount}{path}");
            }
        }
        for name in ["id_rsa", "id_ed25519_sk"] {
            assert!(is_denied(&format!("git://a/blob/HEAD/.ssh/{name}")), "{name}");
        }
    }

    #[test]
    fn no_glob_and_no_alternative_is_there_twice() {
        let globs = globs(None, []);
        let mut distinct = globs.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), globs.len());
        for glob in globs {
            for alternatives in glob.split('{').skip(1).filter_map(|rest| rest.split_once('}')) {
                let mut seen: Vec<_> = alternatives.0.split(',').collect();
                seen.sort_unstable();
                let count = seen.len();
                seen.dedup();
                assert_eq!(seen.len(), count, "{glob}");
            }
        }
    }

    #[test]
    fn public_keys_and_files_with_similar_names_are_not() {
        for path in [
            "id_rsa.pub",
            "environment.md",
            "monkey",
            "keys.md",
            "a.pem.md",
            "config.toml",
            "dotenv.rs",
            ".github/a.md",
            ".gitignore",
            "git/a.md",
            "id_rsa_notes.md",
        ] {
            assert!(!is_denied(&format!("files:///{path}")), "{path}");
        }
    }
}
