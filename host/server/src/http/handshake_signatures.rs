//! The signatures of TLS handshakes, which the verifiers of both sides verify in the same way.

/// Implements the signature methods of a certificate verifier with these algorithms.
macro_rules! verify_handshake_signatures {
    ($this:ident, $algorithms:expr) => {
        fn verify_tls12_signature(
            &$this,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls12_signature(message, certificate, signature, &$algorithms)
        }

        fn verify_tls13_signature(
            &$this,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls13_signature(message, certificate, signature, &$algorithms)
        }

        fn supported_verify_schemes(&$this) -> Vec<rustls::SignatureScheme> {
            $algorithms.supported_schemes()
        }
    };
}
pub(in crate::http) use verify_handshake_signatures;
