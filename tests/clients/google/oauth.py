"""The token endpoint of OAuth 2.0 for service accounts: JWT bearer grants (RFC 7523), signed with RS256."""

import base64
import json
import secrets
import time

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EMAIL = "reader@project.iam.gserviceaccount.com"
SCOPES = {"https://www.googleapis.com/auth/drive", "https://www.googleapis.com/auth/drive.readonly"}
# By how much the clock of a client may differ, in seconds.
LEEWAY = 300


class TokenEndpoint:
    def __init__(self, url, lifetime):
        self.url, self.lifetime = url, lifetime
        self.key = rsa.generate_private_key(65537, 2048)
        self.key_id = secrets.token_hex(20)
        self.is_key_revoked, self.clock_offset = False, 0
        # The time at which each access token expires; None is never.
        self._tokens = {}

    def service_account_key(self):
        """Returns the key as Google hands it out."""
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": self.key_id,
            "private_key": pem.decode(),
            "client_email": EMAIL,
            "client_id": "1",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": self.url,
        }

    def now(self):
        return time.time() + self.clock_offset

    def accept(self, token):
        self._tokens[token] = None

    def expire_all(self):
        self._tokens = {token: 0 for token in self._tokens}

    def is_valid(self, authorization):
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or token not in self._tokens:
            return False
        expires = self._tokens[token]
        return expires is None or self.now() < expires

    def grant(self, form):
        """Returns the status and the body for a token request."""
        if form.get("grant_type") != GRANT:
            return 400, {"error": "unsupported_grant_type", "error_description": "Invalid grant_type"}
        problem = self._problem(form.get("assertion", ""))
        if problem:
            return 400, {"error": "invalid_grant", "error_description": problem}
        token = "ya29." + secrets.token_urlsafe(32)
        self._tokens[token] = self.now() + self.lifetime
        return 200, {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}

    def _problem(self, assertion):
        try:
            signed, _, signature = assertion.rpartition(".")
            header, claims = (json.loads(_decode(part)) for part in signed.split("."))
            self.key.public_key().verify(_decode(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (ValueError, InvalidSignature):
            return "Invalid JWT Signature."
        if self.is_key_revoked or header.get("alg") != "RS256" or header.get("kid", self.key_id) != self.key_id:
            return "Invalid JWT Signature."
        if claims.get("iss") != EMAIL:
            return "Invalid grant: account not found"
        # Google's own clients say the second of these, whatever the address is.
        if claims.get("aud") not in (self.url, "https://oauth2.googleapis.com/token"):
            return "Invalid JWT: Failed audience check."
        if not set(claims.get("scope", "").split()) & SCOPES:
            return "Invalid OAuth scope or ID token audience provided."
        issued, expires = claims.get("iat", 0), claims.get("exp", 0)
        if not issued - LEEWAY <= self.now() < expires + LEEWAY or not 0 < expires - issued <= 3600:
            return (
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
                "Check your iat and exp values in the JWT claim."
            )
        return None


def _decode(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
