//! What no client gets of a path: the config, files of environment variables, and private keys.
//!
//! Globs are matched against URIs, so they hold for the files of a commit, too. Its diff has the text of all that it changed.

/// Files of environment variables, which have passwords. `files` does not serve them anyway, but `notes` and `git` would.
const ENVIRONMENT: [&str; 3] = ["**/*.env", "**/.env.*", "**/.envrc"];

/// Private keys, and stores of keys, by the names that tools give them.
const PRIVATE_KEYS: [&str; 3] = [
    "**/*.{pem,key,p8,p12,pfx,jks,keystore,ppk,kdbx}",
    "**/*.{PEM,KEY,P8,P12,PFX,JKS,KEYSTORE,PPK,KDBX}",
    "**/{id_rsa,id_dsa,id_ecdsa,id_ecdsa_sk,id_ed25519,id_ed25519_sk,secring.gpg}",
];

/// The globs of the rule that denies them.
pub(super) fn globs(config_path: Option<&str>) -> Vec<String> {
    let config = config_path.map(|path| format!("**/{}", literal_glob(path)));
    config.into_iter().chain(ENVIRONMENT.into_iter().chain(PRIVATE_KEYS).map(str::to_owned)).collect()
}

/// A glob that matches that path of a URI. Characters that mean something in a glob, or are percent-encoded in a URI, become
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
        globs(Some("sub/my config.toml")).iter().any(|glob| glob.parse::<UriGlob>().unwrap().matches(uri))
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
        for name in ["id_rsa", "id_ed25519_sk"] {
            assert!(is_denied(&format!("git://a/blob/HEAD/.ssh/{name}")), "{name}");
        }
    }

    #[test]
    fn public_keys_and_files_with_similar_names_are_not() {
        for path in ["id_rsa.pub", "environment.md", "monkey", "keys.md", "a.pem.md", "config.toml", "dotenv.rs"] {
            assert!(!is_denied(&format!("files:///{path}")), "{path}");
        }
    }
}
