// An OAuth client without a browser, for the SDK's own OAuth code: discovery, registration, PKCE, tokens and refresh are the SDK's.

// Nobody listens there: the authorization response is taken from the redirect to it.
const REDIRECT_URL = "http://127.0.0.1/callback";

// The SDK's `OAuthClientProvider` of a person who logs in as that account, and keeps everything in memory.
export class HeadlessAuthorization {
  #account;
  #kept = {};
  // The parameters of the latest authorization response.
  response;

  redirectUrl = REDIRECT_URL;
  clientMetadata = {
    client_name: "mcp-host tests",
    redirect_uris: [REDIRECT_URL],
    grant_types: ["authorization_code", "refresh_token"],
    token_endpoint_auth_method: "none",
  };

  constructor(account) {
    this.#account = account;
  }

  clientInformation = () => this.#kept.client;
  saveClientInformation = (client) => void (this.#kept.client = client);
  tokens = () => this.#kept.tokens;
  saveTokens = (tokens) => void (this.#kept.tokens = tokens);
  codeVerifier = () => this.#kept.verifier;
  saveCodeVerifier = (verifier) => void (this.#kept.verifier = verifier);
  discoveryState = () => this.#kept.discovery;
  saveDiscoveryState = (discovery) => void (this.#kept.discovery = discovery);
  invalidateCredentials = (scope) => {
    if (scope === "all") this.#kept = {};
    else delete this.#kept[scope];
  };

  // Logs in and consents, as the authorization server does at once, by following its redirects.
  async redirectToAuthorization(url) {
    url.searchParams.set("login_hint", this.#account);
    const cookies = new Map();
    while (!url.href.startsWith(REDIRECT_URL)) {
      const cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
      const answer = await fetch(url, { redirect: "manual", headers: { cookie } });
      const location = answer.headers.get("location");
      if (location === null) throw new Error(`${url} does not redirect: ${answer.status} ${await answer.text()}`);
      for (const line of answer.headers.getSetCookie()) {
        const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
        cookies.set(name, value);
      }
      url = new URL(location, url);
    }
    this.response = url.searchParams;
  }
}
