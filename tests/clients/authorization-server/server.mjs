// The OpenID-certified authorization server `oidc-provider` on a loopback port, for one test.
//
//   node server.mjs OPTIONS
//
// OPTIONS is an object of JSON:
//
//   format     "jwt" (RFC 9068), or "opaque" (for introspection), of access tokens
//   algorithm  the algorithm that signs them, "RS256" or "ES256"
//   lifetime   of access tokens, in seconds
//   scopes     the scopes that clients may request
//   accounts   { NAME: [GROUP, …] }: who can log in, with the values of the claim `groups`
//   client     { id, secret } of the resource server, which may introspect tokens
//   upstream   the URL of another resource server, if any, whose access tokens are JWTs. The first one gets them for itself by client
//              credentials, and for an account by the exchange of its own access token (RFC 8693), which is opaque
//
// Clients register themselves (RFC 7591), for all scopes: the SDKs register with those of the first challenge. PKCE is required, tokens are for the resource that the client names (RFC 8707), refresh
// tokens are rotated. There are no pages: a login succeeds at once, as the account that `login_hint` names, and so does the
// consent, to all scopes that were requested.
//
// It prints a line per event:
//
//   listening on ISSUER
//   registered CLIENT
//   authorized ACCOUNT for SCOPE…
//   issued by authorization_code to ACCOUNT for SCOPE…, or by refresh_token, client_credentials (to the client), token-exchange
//   introspected
//   refused PATH: ERROR: DESCRIPTION
//
// Each line of standard input is a command, answered by a line: `revoke ACCOUNT` invalidates all tokens of an account ("revoked"),
// `lifetime SECONDS` is for the tokens to come ("lifetime"), and `token ACCOUNT RESOURCE` issues an access token without a client ("token
// TOKEN"). It exits at the end of its input.

import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { json } from "node:stream/consumers";
import Provider, { errors } from "oidc-provider";

const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange";
const accessTokenType = "urn:ietf:params:oauth:token-type:access_token";
const options = JSON.parse(process.argv[2]);
// The tokens that can be revoked, by account.
const issued = new Map(Object.keys(options.accounts).map((account) => [account, []]));

const http = createServer();
// A client does not find a connection of its pool closed.
http.keepAliveTimeout = 60_000;
http.listen(0, "127.0.0.1", () => start(`http://127.0.0.1:${http.address().port}`));

function start(issuer) {
  const provider = new Provider(issuer, {
    claims: { openid: ["sub"] },
    clients: [
      {
        client_id: options.client.id,
        client_secret: options.client.secret,
        grant_types: options.upstream ? ["client_credentials", exchangeGrant] : [],
        redirect_uris: [],
        response_types: [],
      },
    ],
    cookies: { keys: [randomUUID()] },
    extraTokenClaims: (_, token) => ({ groups: options.accounts[token.accountId] }),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === options.client.id },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (_, __, oneOf) => oneOf ?? options.upstream,
        getResourceServerInfo: (_, resource) => resourceServer(resource),
      },
      revocation: { enabled: true },
    },
    findAccount: (_, id) => id in options.accounts && { accountId: id, claims: () => ({ sub: id }) },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
    jwks: { keys: [privateKey("RS256", "rsa", { modulusLength: 2048 }), privateKey("ES256", "ec", { namedCurve: "P-256" })] },
    pkce: { required: () => true },
    renderError: (context, out) => {
      context.type = "json";
      context.body = out;
    },
    rotateRefreshToken: true,
    scopes: options.scopes,
    ttl: { AccessToken: () => options.lifetime, ClientCredentials: () => options.lifetime },
  });
  if (options.upstream) allowExchange(provider);
  report(provider);
  const respond = provider.callback();
  http.on("request", (request, response) => {
    const answer = request.url.startsWith("/interaction/") ? interact(provider, request, response) : respond(request, response);
    Promise.resolve(answer).catch((error) => {
      console.error(error);
      response.writeHead(500).end(String(error));
    });
  });
  console.log(`listening on ${issuer}`);
  obey(provider);
}

// The access token of an account for the upstream, for one that the resource server got.
function allowExchange(provider) {
  const exchange = async (context) => {
    const { client, params } = context.oidc;
    const subject = params.subject_token_type === accessTokenType && (await provider.AccessToken.find(params.subject_token));
    if (!subject || subject.isExpired) throw new errors.InvalidGrant("the subject token is not valid");
    if (params.resource !== options.upstream) throw new errors.InvalidTarget(`no resource ${params.resource}`);
    const token = accessToken(provider, client, subject.accountId, options.upstream);
    context.oidc.entity("AccessToken", token);
    context.body = {
      access_token: await token.save(),
      expires_in: token.expiration,
      issued_token_type: accessTokenType,
      token_type: token.tokenType,
    };
  };
  const parameters = ["audience", "requested_token_type", "resource", "scope", "subject_token", "subject_token_type"];
  provider.registerGrantType(exchangeGrant, exchange, parameters, ["audience", "resource"]);
}

function accessToken(provider, client, accountId, resource, grantId) {
  const token = new provider.AccessToken({ accountId, client, grantId, scope: options.scopes.join(" ") });
  token.resourceServer = new provider.ResourceServer(resource, resourceServer(resource));
  return token;
}

function resourceServer(resource) {
  return {
    audience: resource,
    scope: options.scopes.join(" "),
    accessTokenFormat: resource === options.upstream ? "jwt" : options.format,
    jwt: { sign: { alg: options.algorithm } },
  };
}

function privateKey(alg, type, parameters) {
  const { privateKey } = generateKeyPairSync(type, parameters);
  return { ...privateKey.export({ format: "jwk" }), alg, kid: `${alg}-1`, use: "sig" };
}

// Answers the login, then the consent.
async function interact(provider, request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    if (!(params.login_hint in options.accounts)) throw new errors.AccessDenied(`no account ${params.login_hint}`);
    return provider.interactionFinished(request, response, { login: { accountId: params.login_hint } });
  }
  const known = grantId && (await provider.Grant.find(grantId));
  const grant = known ?? new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(prompt.details.missingOIDCScope?.join(" ") ?? "");
  for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  const result = { consent: { grantId: await grant.save() } };
  return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

// Prints the events, and widens registrations.
function report(provider) {
  provider.on("registration_create.success", (_, client) => console.log(`registered ${client.clientId}`));
  provider.on("authorization.success", ({ oidc }) => {
    console.log(`authorized ${oidc.session.accountId} for ${oidc.params.scope}`);
  });
  provider.on("grant.success", ({ oidc }) => {
    const { AccessToken, ClientCredentials, RefreshToken: refresh } = oidc.entities;
    const token = AccessToken ?? ClientCredentials;
    issued.get(token.accountId)?.push(token, refresh);
    const grant = oidc.params.grant_type.split(":").at(-1);
    console.log(`issued by ${grant} to ${token.accountId ?? token.clientId} for ${token.scope}`);
  });
  provider.use(async (context, next) => {
    if (context.method === "POST" && context.path === "/reg") {
      const { scope, ...metadata } = await json(context.req);
      context.req.body = metadata;
    }
    await next();
    const { status, body, path } = context;
    if (status >= 400) console.log(`refused ${path}: ${body?.error}: ${body?.error_description}`);
    else if (path === "/token/introspection") console.log("introspected");
  });
}

async function obey(provider) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, argument, resource] = line.split(" ");
    if (command === "lifetime") {
      options.lifetime = Number(argument);
      console.log("lifetime");
    } else if (command === "revoke") {
      for (const token of issued.get(argument).splice(0)) await token?.destroy();
      console.log("revoked");
    } else if (command === "token") {
      const client = await provider.Client.find(options.client.id);
      const grant = new provider.Grant({ accountId: argument, clientId: options.client.id });
      grant.addResourceScope(resource, options.scopes.join(" "));
      const token = accessToken(provider, client, argument, resource, await grant.save());
      console.log(`token ${await token.save()}`);
    }
  }
  process.exit();
}
