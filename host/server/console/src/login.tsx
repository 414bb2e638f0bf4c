// The login: by the code in the address, which `mcp-host serve --open` made, or by the token.

import { useEffect, useRef, useState } from "preact/hooks";
import { login, type Session } from "./api";
import { t } from "./language";
import { Message } from "./message";
import { Problem, Unanswered } from "./parts";

/** Takes the code out of the address, so that it is in no history. */
export function takeCode(): string | null {
  const code = /^#code=([0-9a-f]+)$/.exec(location.hash)?.[1] ?? null;
  if (code) {
    history.replaceState(null, "", location.pathname);
  }
  return code;
}

interface Props {
  code: string | null;
  /** Whether a session has ended that its user did not end. */
  hasEnded: boolean;
  loggedIn: (session: Session) => void;
}

export function Login({ code, hasEnded, loggedIn }: Props) {
  const [error, setError] = useState<Error | null>(null);
  const [isWaiting, setWaiting] = useState(code !== null);
  const [token, setToken] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const exchange = (credentials: { code: string } | { token: string }) => {
    setWaiting(true);
    setError(null);
    login(credentials).then(loggedIn, (error: Error) => {
      setError(error);
      setWaiting(false);
    });
  };
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    if (code) {
      exchange({ code });
    }
  }, [code]);
  return (
    <main class="login">
      <h1>mcp-host</h1>
      {hasEnded ? (
        <p class="problem" role="alert">
          {t(
            "The session has ended: the server was restarted, its token was changed or withdrawn, or 12 hours have passed.",
            "セッションが終了しました。サーバーの再起動、トークンの変更や失効、または 12 時間の経過によるものです。",
          )}
        </p>
      ) : null}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          exchange({ token });
        }}
      >
        <label for="token">{t("Token", "トークン")}</label>
        <input
          ref={field}
          id="token"
          type="password"
          autocomplete="current-password"
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p class="muted">
          <Message
            text={t(
              "Administrators: the token in the file that `admin.token` names. Users, if `[admin] users = true`: the token of your MCP client.",
              "管理者: `admin.token` が示すファイルのトークン。利用者（`[admin] users = true` の場合）: MCP クライアントのトークン。",
            )}
          />
        </p>
        <p class="muted">
          <Message
            text={t(
              "An administrator without the token: `mcp-host admin open` prints an address that logs in once. `mcp-host serve --open`, also without a config, prints another one after `kill -USR1 PID`.",
              "トークンのない管理者: `mcp-host admin open` は、一度だけログインできるアドレスを表示します。`mcp-host serve --open` は、設定ファイルがなくても、`kill -USR1 PID` の後に別のアドレスを表示します。",
            )}
          />
        </p>
        <button type="submit" class="primary" disabled={isWaiting}>
          {t("Log in", "ログイン")}
        </button>
      </form>
      <Unanswered />
      <Problem error={error} />
    </main>
  );
}
