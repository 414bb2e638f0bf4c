//! The grants and limits of the config, for a program.

use mcp_host_config::grants::{Grants, Mode};
use mcp_host_config::limits;

use crate::spec::{Directory, Spec};

/// A grant that programs do not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be granted to a program: {help}")]
pub struct GrantError {
    /// The grant.
    what: String,
    /// The reason, and the alternative.
    help: &'static str,
}

impl Spec {
    /// Grants a program the config's grants: directories, variables, origins.
    ///
    /// A quota bounds each file that the program writes, not the directory.
    ///
    /// # Errors
    ///
    /// A grant requires an action of the host: headers and tokens that it adds to requests, buckets,
    /// databases.
    pub fn grant(mut self, grants: &Grants) -> Result<Self, GrantError> {
        let refuse = |what: String, help| Err(GrantError { what, help });
        for (guest, dir) in &grants.dirs {
            let guest = Some(guest.as_str().into());
            let writable = match dir.mode {
                Mode::ReadOnly => false,
                Mode::ReadWrite { quota } => {
                    self.limits.file_size = self.limits.file_size.min(quota.bytes());
                    true
                }
            };
            self.directories.push(Directory { host: dir.host.clone(), guest, writable });
        }
        for (name, value) in &grants.env {
            self.environment.insert(name.as_str().to_owned(), value.expose().clone());
        }
        for grant in grants.http.iter() {
            if !grant.headers.is_empty() || grant.oauth.is_some() {
                let help = "what it sends is encrypted between it and the server; give it a variable (`grants.env`)";
                return refuse(format!("`headers-from` or `oauth` of {}", grant.origin), help);
            }
            if grant.ca.is_some() {
                let help = "it verifies certificates itself; give it the file, and a variable that names it";
                return refuse(format!("`ca` of {}", grant.origin), help);
            }
            self.origins.push(grant.origin.clone());
        }
        if let Some(name) = grants.keyvalue.keys().next() {
            return refuse(format!("the bucket {}", name.as_str()), "give it a directory (`grants.dirs`)");
        }
        if let Some(name) = grants.sql.keys().next() {
            return refuse(format!("the database {}", name.as_str()), "it has no interface for it");
        }
        Ok(self)
    }

    /// Sets the limits of the program from the plugin's: its memory and its processor time.
    #[must_use]
    pub fn limit(mut self, limits: &limits::Limits) -> Self {
        self.limits.memory = limits.memory.bytes();
        self.limits.cpu = limits.program_cpu.map(|cpu| cpu.duration());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_host_config::grants::{DirGrant, HttpGrant};
    use mcp_host_model::net::OriginPattern;

    use super::*;

    #[test]
    fn a_program_is_granted_directories_variables_and_origins_and_no_credentials() {
        let mut grants = Grants::default();
        let quota = "1MiB".parse().unwrap();
        let dir = |host: &str, mode| DirGrant { host: host.into(), mode };
        grants.dirs.insert("/data".parse().unwrap(), dir("/srv/data", Mode::ReadOnly));
        grants.dirs.insert("/out".parse().unwrap(), dir("/out", Mode::ReadWrite { quota }));
        grants.env.insert("TOKEN".parse().unwrap(), mcp_host_config::Secret::new("t".to_owned()));
        grants.http.add(HttpGrant::new("https://docs.rs".parse().unwrap())).unwrap();
        let limits = limits::Limits { program_cpu: Some("1h".parse().unwrap()), ..limits::Limits::default() };
        let spec = Spec::new(["/bin/true"]).grant(&grants).unwrap().limit(&limits);
        let guest = |path: &str| Some(path.into());
        let read = Directory { guest: guest("/data"), ..Directory::read_only("/srv/data") };
        assert_eq!(spec.directories, [read, Directory { guest: guest("/out"), ..Directory::writable("/out") }]);
        assert_eq!(spec.environment["TOKEN"], "t");
        assert_eq!(spec.origins, ["https://docs.rs".parse::<OriginPattern>().unwrap()]);
        assert_eq!((spec.limits.file_size, spec.limits.memory), (1 << 20, 64 << 20));
        assert_eq!(spec.limits.cpu, Some(Duration::from_secs(3600)));

        let mut with_header = HttpGrant::new("https://api.example.com".parse().unwrap());
        with_header.headers.insert("x-key".parse().unwrap(), mcp_host_config::Secret::new("v".parse().unwrap()));
        grants.http.add(with_header).unwrap();
        let error = Spec::new(["/bin/true"]).grant(&grants).unwrap_err().to_string();
        assert!(error.contains("`headers-from`") && error.contains("https://api.example.com"), "{error}");
    }
}
