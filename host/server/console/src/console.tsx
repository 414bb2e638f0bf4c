// The console: the login, the navigation, and one page at a time, which the hash of the address names.

import { render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { get, hasKey, logout, type Session, whenLoggedOut } from "./api";
import { Banners } from "./banners";
import { uriOf } from "./iri";
import { currentLanguage, setLanguage, t } from "./language";
import { Login, takeCode } from "./login";
import { link, Problem, Unanswered, Waiting } from "./parts";
import { Config } from "./pages/config";
import { Context } from "./pages/context";
import { Live } from "./pages/live";
import { Plugins } from "./pages/plugins";
import { Resources } from "./pages/resources";
import { ViewAs } from "./pages/view-as";
import { Updates, useWatch } from "./watch";

interface View {
  name: string;
  title: () => string;
  /** Whether it is for administrators only. */
  isAdministrative?: boolean;
  /** Whether it follows changes, by a stream that ends with the session. */
  isWatched?: boolean;
  /** `chosen` is empty if nothing is. */
  show: (chosen: string, isUser: boolean) => preact.JSX.Element;
}

const VIEWS: View[] = [
  { name: "resources", title: () => t("Resources", "リソース"), isWatched: true, show: (uri, isUser) => <Resources selected={uri || null} isUser={isUser} /> },
  { name: "context", title: () => t("Context", "コンテキスト"), show: (_, isUser) => <Context isUser={isUser} /> },
  { name: "view-as", title: () => t("View as", "視点の比較"), isAdministrative: true, isWatched: true, show: (uri) => <ViewAs selected={uri || null} /> },
  { name: "plugins", title: () => t("Plugins", "プラグイン"), isAdministrative: true, show: (name) => <Plugins selected={name || null} /> },
  { name: "live", title: () => t("Live", "ライブ"), isAdministrative: true, show: () => <Live /> },
  { name: "config", title: () => t("Config", "設定"), isAdministrative: true, show: () => <Config /> },
];

/** The address of a page, for whoever is at another one. The chosen resource stays chosen where another page shows resources, too. */
function address(page: string, from: string, chosen: string): string {
  const keeps = ["resources", "view-as"];
  return chosen && page !== from && keeps.includes(page) && keeps.includes(from) ? link(page, chosen) : `#/${page}`;
}

/** The name of the page in the hash, and what is chosen there: the name of a plugin, or a URI, also one that is written as an IRI. */
function parts(): [string, string] {
  const [, page = "", chosen = ""] = /^#\/?([^/]*)\/?(.*)$/s.exec(location.hash) ?? [];
  // A URI that somebody wrote there is not encoded once more, as those of links are.
  return [page, uriOf(chosen.includes("/") ? chosen : decoded(chosen))];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Ends the page's data at once when the session ends: by a stream on which nothing is watched. */
function Guard() {
  const updates = useMemo(() => new Updates(), []);
  useWatch(null, [], false, updates);
  return null;
}

function App({ code }: { code: string | null }) {
  const [session, setSession] = useState<Session | null>(null);
  const [hasEnded, setEnded] = useState(false);
  const [isChecked, setChecked] = useState(code !== null || !hasKey());
  const [error, setError] = useState<Error | null>(null);
  const [[page, chosen], setAt] = useState(parts());
  const [, setShown] = useState(currentLanguage());
  useEffect(() => {
    whenLoggedOut((isByUser) => {
      setSession(null);
      setEnded(!isByUser);
    });
    const moved = () => setAt(parts());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  // Not after the frame is drawn: the first view waits for the answer.
  useLayoutEffect(() => {
    if (isChecked) {
      return;
    }
    let timer = 0;
    const check = () =>
      get<Session>("session").then(
        (found) => {
          setSession(found);
          setChecked(true);
        },
        (error) => {
          if (error.status === 401) {
            setChecked(true);
          } else {
            setError(error);
            timer = window.setTimeout(check, 2000);
          }
        },
      );
    check();
    return () => clearTimeout(timer);
  }, [isChecked]);
  const views = VIEWS.filter(({ isAdministrative }) => session?.administrator || !isAdministrative);
  const found = views.find(({ name }) => name === page);
  useEffect(() => {
    // A page that there is not, or not for this user.
    if (session && page !== "" && !found) {
      location.replace("#/resources");
    }
  }, [session, page]);
  if (!isChecked) {
    return <main class="login"><Unanswered />{error ? <Problem error={error} /> : <Waiting />}</main>;
  }
  if (!session) {
    return <Login code={code} hasEnded={hasEnded} loggedIn={setSession} />;
  }
  const isUser = !session.administrator;
  const view = found ?? views[0]!;
  document.title = `${view.title()} – mcp-host`;
  return (
    <>
      <header>
        <a class="skip" href="#content" onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}>
          {t("Skip to the content", "本文へ移動")}
        </a>
        <span class="brand">mcp-host</span>
        <nav aria-label={t("Pages", "ページ")}>
          {views.map(({ name, title }) => (
            <a key={name} href={address(name, view.name, chosen)} aria-current={name === view.name ? "page" : undefined}>
              {title()}
            </a>
          ))}
        </nav>
        <span class="session">
          <span class="muted principal">{session.principal}</span>
          <label class="language">
            <span class="hidden">{t("Language", "言語")}</span>
            <select
              value={currentLanguage()}
              onChange={(event) => {
                setLanguage(event.currentTarget.value as "en" | "ja");
                setShown(currentLanguage());
              }}
            >
              <option value="en" lang="en">English</option>
              <option value="ja" lang="ja">日本語</option>
            </select>
          </label>
          <button type="button" class="small" onClick={() => void logout()}>
            {t("Log out", "ログアウト")}
          </button>
        </span>
      </header>
      <main id="content" tabIndex={-1}>
        <h1>{view.title()}</h1>
        <Unanswered />
        {isUser ? null : <Banners page={view.name} />}
        {view.isWatched ? null : <Guard />}
        {view.show(found ? chosen : "", isUser)}
      </main>
    </>
  );
}

setLanguage(currentLanguage());
render(<App code={takeCode()} />, document.getElementById("app")!);
