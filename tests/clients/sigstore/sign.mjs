// Keyless signatures by Sigstore's own signer, with its certificate authority, logs and timestamp authority as a mock on loopback.
//
//   node sign.mjs < REQUEST
//
// REQUEST is an object of JSON, and so is what is printed:
//
//   statements  a list of { subject, issuer, statement, witnesses }: who signs which in-toto statement; `witnesses` is a list of
//               "log" and "timestamp", the log alone unless given
//   root        a list of what the trusted root leaves out: "ctlogs", "tlogs" or "timestampAuthorities"; nothing unless given
//   shift       seconds by which the clock of the log is ahead
//
//   bundles     the bundles, in that order
//   root        the trusted root
//
// What differs from the mock as it is: the log's entry of an envelope is the one that Rekor makes of it, and its clock has whole seconds.

import { createHash, generateKeyPairSync, X509Certificate } from "node:crypto";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { bundleToJSON } from "@sigstore/bundle";
import mock from "@sigstore/mock";
import { DSSEBundleBuilder, FulcioSigner, RekorWitness, TSAWitness } from "@sigstore/sign";

const request = JSON.parse(await text(process.stdin));
const keys = () => generateKeyPairSync("ec", { namedCurve: "P-256" });
const now = new Date(Math.floor(Date.now() / 1000) * 1000);
const before = new Date(now.getTime() - 3600 * 1000).toISOString();

const ctlog = await mock.initializeCTLog(keys(), now);
const ca = await mock.initializeCA(generateKeyPairSync("ec", { namedCurve: "P-384" }), ctlog, now);
const logClock = new Date(now.getTime() + 1000 * (request.shift ?? 0));
const tlog = await mock.initializeTLog("http://rekor.mock", keys(), logClock);
const tsa = await mock.initializeTSA(generateKeyPairSync("ec", { namedCurve: "P-384" }), now);

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

// The entry that Rekor makes of a proposed one: digests, signatures and certificates, and no payload.
function logged(proposed) {
  const { envelope, verifiers } = proposed.spec.proposedContent;
  const { payload, signatures } = JSON.parse(envelope);
  const digest = (value) => ({ algorithm: "sha256", value });
  const certificate = new X509Certificate(Buffer.from(verifiers[0], "base64")).toString();
  const verifier = Buffer.from(certificate).toString("base64");
  return {
    apiVersion: proposed.apiVersion,
    kind: proposed.kind,
    spec: {
      envelopeHash: digest(sha256(envelope)),
      payloadHash: digest(sha256(Buffer.from(payload, "base64"))),
      signatures: signatures.map(({ sig }) => ({ signature: sig, verifier })),
    },
  };
}

const handlers = [mock.fulcioHandler(ca), mock.tsaHandler(tsa)];
const server = createServer(async (incoming, outgoing) => {
  const chunks = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  const answer = (status, type, response) => outgoing.writeHead(status, { "Content-Type": type }).end(response);
  if (incoming.url === "/api/v1/log/entries") {
    return answer(201, "application/json", JSON.stringify(await tlog.log(logged(JSON.parse(body)))));
  }
  const handler = handlers.find(({ path }) => path === incoming.url);
  const { statusCode, response, contentType } = await handler.fn(body);
  answer(statusCode, contentType ?? "text/plain", response);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}`;

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const token = (claims) => `${encoded({ alg: "none" })}.${encoded(claims)}.`;
const options = { retry: 0, timeout: 10_000 };
const witness = {
  log: () => new RekorWitness({ rekorBaseURL: url, ...options }),
  timestamp: () => new TSAWitness({ tsaBaseURL: url, ...options }),
};

const bundles = [];
for (const { subject, issuer, statement, witnesses = ["log"] } of request.statements) {
  const identityProvider = { getToken: async () => token({ sub: subject, iss: issuer }) };
  const signer = new FulcioSigner({ fulcioBaseURL: url, identityProvider, ...options });
  const builder = new DSSEBundleBuilder({ signer, witnesses: witnesses.map((name) => witness[name]()) });
  const type = "application/vnd.in-toto+json";
  const bundle = await builder.create({ data: Buffer.from(JSON.stringify(statement)), type });
  const json = bundleToJSON(bundle);
  // Empty lists and zeros are left out in protobuf's JSON, and other readers want them.
  for (const entry of json.verificationMaterial.tlogEntries ?? []) {
    entry.inclusionProof = { logIndex: "0", hashes: [], ...entry.inclusionProof };
  }
  bundles.push(json);
}
server.close();

const base64 = (bytes) => Buffer.from(bytes).toString("base64");
const validFor = { start: before };
const log = (baseUrl, publicKey) => ({
  baseUrl,
  hashAlgorithm: "SHA2_256",
  publicKey: { rawBytes: base64(publicKey), keyDetails: "PKIX_ECDSA_P256_SHA_256", validFor },
  logId: { keyId: createHash("sha256").update(publicKey).digest("base64") },
});
const authority = (uri, certificates) => ({
  subject: { organization: "sigstore.mock", commonName: "sigstore" },
  uri,
  certChain: { certificates: certificates.map((bytes) => ({ rawBytes: base64(bytes) })) },
  validFor,
});
const root = {
  mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
  tlogs: [log("http://rekor.mock", tlog.publicKey)],
  certificateAuthorities: [authority("http://fulcio.mock", [ca.rootCertificate])],
  ctlogs: [log("http://ctfe.mock", ctlog.publicKey)],
  timestampAuthorities: [authority("http://tsa.mock", [tsa.intCertificate, tsa.rootCertificate])],
};
for (const part of request.root ?? []) root[part] = [];
console.log(JSON.stringify({ bundles, root }));
