//! The server's certificate from the view of clients: its validity period, and its names.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use mcp_host_model::net::UrlHost;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use super::Warning;
use crate::Config;
use crate::http::{ENDPOINT_PATH, Tls};

/// The time before expiry in which a certificate causes a warning.
const RENEWAL_TIME: Duration = Duration::from_secs(14 * SECONDS_PER_DAY);
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// The reason why clients reject the server's certificate, or will soon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// The certificate has expired.
    Expired {
        /// The end of its validity.
        not_after: SystemTime,
    },
    /// The certificate is not valid yet.
    NotYetValid {
        /// The start of its validity.
        not_before: SystemTime,
    },
    /// The certificate expires within 14 days.
    ExpiresSoon {
        /// The end of its validity.
        not_after: SystemTime,
        /// The time until then.
        remaining: Duration,
    },
    /// The certificate is not valid for a host of `http.public-url` or `http.hosts`.
    OtherName {
        /// The host.
        host: UrlHost,
    },
}

impl fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the certificate of `http.tls` ")?;
        match self {
            Self::Expired { not_after } => {
                write!(f, "expired at {}, so clients reject it; replace it", Utc(*not_after))
            }
            Self::NotYetValid { not_before } => {
                write!(f, "is not valid before {}, so clients reject it until then", Utc(*not_before))
            }
            Self::ExpiresSoon { not_after, remaining } => match remaining.as_secs() / SECONDS_PER_DAY {
                0 => write!(f, "expires at {}, in less than a day; replace it", Utc(*not_after)),
                1 => write!(f, "expires at {}, in 1 day; replace it", Utc(*not_after)),
                days => write!(f, "expires at {}, in {days} days; replace it", Utc(*not_after)),
            },
            Self::OtherName { host } => write!(
                f,
                "is not for `{host}`, which is a host of `http.public-url` or `http.hosts`: clients reject it under that name; \
                 add the name to the certificate (subject alternative name)"
            ),
        }
    }
}

/// A time in UTC, in seconds (RFC 3339).
struct Utc(SystemTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::try_from(self.0) {
            Ok(time) => write!(f, "{time:.0}"),
            Err(_) => f.write_str("a time that is out of range"),
        }
    }
}

impl Config {
    /// Returns the warnings about the certificate of the server.
    pub(super) fn certificate_warnings(&self) -> impl Iterator<Item = Warning> {
        let problems = self.http.tls.as_ref().map(|tls| {
            let hosts = self.http.public_url.iter().map(|url| url.origin().host()).chain(&self.http.hosts);
            problems(tls, hosts, SystemTime::now())
        });
        let path = self.http.public_url.as_ref().filter(|url| self.http.tls.is_some() && url.path() != ENDPOINT_PATH);
        let problems = problems.into_iter().flatten().map(|problem| Warning::Certificate { problem });
        problems.chain(path.map(|url| Warning::PublicPath { url: url.clone() }))
    }
}

/// Returns the problems of a certificate for a server with these hosts.
fn problems<'h>(tls: &Tls, hosts: impl Iterator<Item = &'h UrlHost>, now: SystemTime) -> Vec<CertificateProblem> {
    let Some(certificate) = tls.end_entity() else { return Vec::new() };
    let mut found: Vec<_> = validity_problem(certificate, now).into_iter().collect();
    for host in hosts {
        let problem = CertificateProblem::OtherName { host: host.clone() };
        if !is_for(certificate, host) && !found.contains(&problem) {
            found.push(problem);
        }
    }
    found
}

fn validity_problem(certificate: &CertificateDer<'_>, now: SystemTime) -> Option<CertificateProblem> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let validity = certificate.validity();
    let (not_before, not_after) = (system_time(validity.not_before)?, system_time(validity.not_after)?);
    if now < not_before {
        return Some(CertificateProblem::NotYetValid { not_before });
    }
    match not_after.duration_since(now) {
        Err(_) => Some(CertificateProblem::Expired { not_after }),
        Ok(remaining) if remaining < RENEWAL_TIME => Some(CertificateProblem::ExpiresSoon { not_after, remaining }),
        Ok(_) => None,
    }
}

fn system_time(time: ASN1Time) -> Option<SystemTime> {
    let seconds = Duration::from_secs(time.timestamp().unsigned_abs());
    if time.timestamp() < 0 { UNIX_EPOCH.checked_sub(seconds) } else { UNIX_EPOCH.checked_add(seconds) }
}

/// Whether clients accept a certificate for a host. An unreadable certificate counts as accepted: it has been reported.
fn is_for(certificate: &CertificateDer<'_>, host: &UrlHost) -> bool {
    let name = match host {
        UrlHost::Name(name) => ServerName::try_from(name.as_str()).ok(),
        UrlHost::Address(address) => Some(ServerName::from(*address)),
    };
    match (name, ParsedCertificate::try_from(certificate)) {
        (Some(name), Ok(certificate)) => verify_server_name(&certificate, &name).is_ok(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    const DAY: Duration = Duration::from_secs(SECONDS_PER_DAY);

    /// A certificate for these names, valid in 2026.
    fn tls(names: &[&str]) -> Tls {
        let key = KeyPair::generate().unwrap();
        let mut parameters =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let certificate = parameters.self_signed(&key).unwrap();
        Tls::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    /// The first moments of 2026 and of 2027.
    fn year() -> (SystemTime, SystemTime) {
        let begin = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        (begin, begin + 365 * DAY)
    }

    fn told(now: SystemTime) -> Vec<String> {
        problems(&tls(&["a.example"]), [].into_iter(), now).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_certificate_is_told_before_and_after_it_is_valid_and_in_its_last_days() {
        let (begin, end) = year();
        let second = Duration::from_secs(1);
        let early =
            "the certificate of `http.tls` is not valid before 2026-01-01T00:00:00Z, so clients reject it until then";
        let late = "the certificate of `http.tls` expired at 2027-01-01T00:00:00Z, so clients reject it; replace it";
        assert_eq!(told(begin - second), [early]);
        assert!(told(begin).is_empty());
        assert!(told(end - 14 * DAY).is_empty());
        let soon = |time: &str| {
            format!("the certificate of `http.tls` expires at 2027-01-01T00:00:00Z, in {time}; replace it")
        };
        assert_eq!(told(end - 14 * DAY + second), [soon("13 days")]);
        assert_eq!(told(end - 2 * DAY + second), [soon("1 day")]);
        assert_eq!(told(end - second), [soon("less than a day")]);
        assert_eq!(told(end + second), [late]);
    }

    #[test]
    fn each_host_that_a_certificate_is_not_for_is_told_once() {
        let tls = tls(&["mcp.example.com", "*.corp.example", "192.0.2.1"]);
        let hosts = ["mcp.example.com", "a.corp.example", "192.0.2.1", "other.example", "192.0.2.2", "other.example"];
        let hosts = hosts.map(|host| host.parse::<UrlHost>().unwrap());
        let found = problems(&tls, hosts.iter(), year().0);
        let other = |index: usize| CertificateProblem::OtherName { host: hosts[index].clone() };
        assert_eq!(found, [other(3), other(4)]);
        assert!(found[0].to_string().contains("is not for `other.example`, which is a host of"), "{}", found[0]);
    }

    #[test]
    fn a_public_url_with_another_path_than_the_endpoint_is_told() {
        let warnings = |url: &str, has_tls: bool| {
            let mut config = Config::new();
            config.http.public_url = Some(url.parse().unwrap());
            config.http.tls = has_tls.then(|| tls(&["mcp.example.com"]));
            let told = config.certificate_warnings().map(|warning| warning.to_string());
            told.filter(|text| text.contains("public-url` is")).collect::<Vec<_>>()
        };
        let said = "the path of `http.public-url` is `/api`, and the endpoint of this server is `/mcp`: unless a proxy maps one \
                    to the other, clients do not find it there; write `https://mcp.example.com/mcp`";
        assert_eq!(warnings("https://mcp.example.com/api", true), [said]);
        assert!(warnings("https://mcp.example.com/mcp", true).is_empty());
        assert!(warnings("https://mcp.example.com/api", false).is_empty(), "there is a proxy");
    }
}
