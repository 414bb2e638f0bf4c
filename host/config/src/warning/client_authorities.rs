//! Authorities of client certificates, one of them below another: certificates of the lower one chain to both, so its
//! clients are refused.
//!
//! This check knows only certificates in the config. If client certificates link two authorities, that is detected when
//! such a client connects.

use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Warning;
use crate::Config;
use crate::http::ClientAuthority;

impl Config {
    /// Returns the warnings about authorities of client certificates that are indistinguishable.
    pub(super) fn client_authority_warnings(&self) -> impl Iterator<Item = Warning> {
        let pairs = find_overlapping(&self.http.client_ca);
        pairs.into_iter().map(|(below, above)| Warning::OverlappingClientAuthorities { below, above })
    }
}

/// A certificate, and the index of its authority.
type Configured<'a> = (usize, X509Certificate<'a>);

/// Returns the names of pairs of authorities: certificates of the first chain to the second, too. Two authorities with
/// a common certificate give one pair.
fn find_overlapping(authorities: &[ClientAuthority]) -> Vec<(String, String)> {
    let all: Vec<Configured<'_>> = authorities
        .iter()
        .enumerate()
        .flat_map(|(index, authority)| authority.ca.certificates().iter().map(move |der| (index, der)))
        .filter_map(|(index, der)| Some((index, X509Certificate::from_der(der).ok()?.1)))
        .collect();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (index, start) in &all {
        for above in above(start, &all) {
            let is_known = found.contains(&(*index, above)) || found.contains(&(above, *index));
            if above != *index && !is_known {
                found.push((*index, above));
            }
        }
    }
    let name = |index: usize| authorities.get(index).map(|authority| authority.name.as_str().to_owned());
    found.into_iter().filter_map(|(below, above)| Some((name(below)?, name(above)?))).collect()
}

/// Returns the authorities to which a certificate chains, through certificates of the config. Each is visited once.
fn above(start: &X509Certificate<'_>, all: &[Configured<'_>]) -> Vec<usize> {
    let mut visited = vec![false; all.len()];
    let (mut found, mut pending) = (Vec::new(), vec![start]);
    while let Some(child) = pending.pop() {
        for ((index, parent), visited) in all.iter().zip(&mut visited) {
            if !*visited && (is_same_key(child, parent) || is_issuer(parent, child)) {
                *visited = true;
                found.push(*index);
                pending.push(parent);
            }
        }
    }
    found
}

fn is_same_key(one: &X509Certificate<'_>, other: &X509Certificate<'_>) -> bool {
    one.subject().as_raw() == other.subject().as_raw() && one.public_key().raw == other.public_key().raw
}

/// Returns whether one certificate is the issuer of the other, by names, and by key ids if present. A self-issued
/// certificate has no other issuer.
fn is_issuer(parent: &X509Certificate<'_>, child: &X509Certificate<'_>) -> bool {
    let names_match = child.issuer().as_raw() == parent.subject().as_raw();
    let is_self_issued = child.issuer().as_raw() == child.subject().as_raw();
    let subject_key = parent.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    let authority_key = child.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    });
    names_match && !is_self_issued && subject_key.zip(authority_key).is_none_or(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;
    use crate::grants::CaBundle;

    fn authority(name: &str, parent: Option<&Issuer<'_, KeyPair>>) -> (Issuer<'static, KeyPair>, Certificate) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.use_authority_key_identifier_extension = true;
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = match parent {
            Some(parent) => parameters.signed_by(&key, parent).unwrap(),
            None => parameters.self_signed(&key).unwrap(),
        };
        (Issuer::new(parameters, key), certificate)
    }

    fn found(authorities: &[(&str, &[&Certificate])]) -> Vec<(String, String)> {
        let authority = |(name, certificates): &(&str, &[&Certificate])| {
            let pem: String = certificates.iter().map(|certificate| certificate.pem()).collect();
            ClientAuthority::new(name.parse().unwrap(), CaBundle::from_pem(pem.as_bytes()).unwrap())
        };
        find_overlapping(&authorities.iter().map(authority).collect::<Vec<_>>())
    }

    fn pair(below: &str, above: &str) -> Vec<(String, String)> {
        vec![(below.to_owned(), above.to_owned())]
    }

    #[test]
    fn authorities_of_which_one_is_below_the_other_are_found_whatever_their_order() {
        let (root_key, root) = authority("Root", None);
        let (middle_key, middle) = authority("Middle", Some(&root_key));
        let (_, low) = authority("Low", Some(&middle_key));
        assert_eq!(found(&[("staff", &[&root]), ("contractors", &[&middle])]), pair("contractors", "staff"));
        assert_eq!(found(&[("contractors", &[&middle]), ("staff", &[&root])]), pair("contractors", "staff"));
        assert_eq!(found(&[("a", &[&root, &middle]), ("b", &[&low])]), pair("b", "a"), "with one between");
        assert_eq!(found(&[("a", &[&root, &middle, &low])]), [], "one authority has several certificates");
    }

    #[test]
    fn authorities_that_have_a_certificate_in_common_are_found_and_those_with_equal_names_are_not() {
        let (_, one) = authority("Devices", None);
        let (_, other) = authority("Devices", None);
        assert_eq!(found(&[("a", &[&one]), ("b", &[&one])]), pair("a", "b"));
        assert_eq!(found(&[("a", &[&one]), ("b", &[&other])]), [], "the keys are different");
    }

    #[test]
    fn they_are_warned_of_with_what_happens_and_what_to_do() {
        let (_, ca) = authority("Devices", None);
        let mut config = Config::new();
        let bundle = CaBundle::from_pem(ca.pem().as_bytes()).unwrap();
        config.http.client_ca =
            ["a", "b"].map(|name| ClientAuthority::new(name.parse().unwrap(), bundle.clone())).to_vec();
        let told: Vec<_> = config.client_authority_warnings().map(|warning| warning.to_string()).collect();
        assert_eq!(
            told,
            [
                "client certificates of `a` of `http.client-ca` lead to `b`, too, so that they name two principals: clients with \
              them are answered with 401; remove one of the two, or use authorities of which none is below the other"
            ]
        );
    }
}
