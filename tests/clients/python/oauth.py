"""An OAuth client without a browser, for the SDK's own OAuth code: discovery, registration, PKCE, tokens and refresh are the SDK's."""

from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

# Nobody listens there: the authorization response is taken from the redirect to it.
REDIRECT_URL = "http://127.0.0.1/callback"


class InMemoryStorage:
    """Keeps the registration and the tokens."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def authorization(server_url: str, account: str) -> OAuthClientProvider:
    """Returns the SDK's authorization of a person who logs in as that account."""
    answers: list[AuthorizationCodeResult] = []

    async def follow(url: str) -> None:
        """Logs in and consents, as the authorization server does at once, by following its redirects."""
        target = httpx2.URL(url).copy_add_param("login_hint", account)
        async with httpx2.AsyncClient() as browser:
            while not str(target).startswith(REDIRECT_URL):
                answer = await browser.get(target)
                if answer.next_request is None:
                    raise AssertionError(f"{target} does not redirect: {answer.status_code} {answer.text}")
                target = answer.next_request.url
        response = {name: values[0] for name, values in parse_qs(urlsplit(str(target)).query).items()}
        answers.append(AuthorizationCodeResult.model_validate(response))

    async def answer() -> AuthorizationCodeResult:
        return answers.pop()

    metadata = OAuthClientMetadata(
        client_name="mcp-host tests", redirect_uris=[REDIRECT_URL], token_endpoint_auth_method="none"
    )
    return OAuthClientProvider(server_url, metadata, InMemoryStorage(), follow, answer)
