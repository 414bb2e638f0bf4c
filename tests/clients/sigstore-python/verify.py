"""Verifies a keyless bundle by Sigstore's own verifier, without a network.

    verify.py ROOT BUNDLE SUBJECT ISSUER

Prints the payload of the envelope. A bundle that is not by that subject and issuer ends with the error on standard error.
"""

import sys
from pathlib import Path

from sigstore.errors import VerificationError
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier, policy

root, bundle, subject, issuer = sys.argv[1:]
verifier = Verifier(trusted_root=TrustedRoot.from_file(root))
try:
    _, payload = verifier.verify_dsse(
        Bundle.from_json(Path(bundle).read_bytes()), policy.Identity(identity=subject, issuer=issuer)
    )
except VerificationError as error:
    sys.exit(f"not verified: {error}")
print(payload.decode())
