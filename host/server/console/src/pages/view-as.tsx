// View as: what two principals see, side by side, and why one may or may not do something.

import { useEffect, useState } from "preact/hooks";
import { post } from "../api";
import { Browser } from "../browser";
import { iri, uriOf } from "../iri";
import { t } from "../language";
import { Facts, link, Problem } from "../parts";
import { Who } from "../who";
import { type Explanation, viewKey, type Viewer } from "../types";
import { LOCAL, ViewerChoice } from "../viewer";

const OPERATIONS = ["read", "list", "metadata", "templates", "complete", "subscribe"];

export function ViewAs({ selected }: { selected: string | null }) {
  const [one, setOne] = useState<Viewer>(LOCAL);
  const [other, setOther] = useState<Viewer>({ principal: "anonymous", groups: [] });
  const side = (viewer: Viewer, label: string, choose: (viewer: Viewer) => void) => (
    <section class="side" aria-label={label}>
      <ViewerChoice label={label} viewer={viewer} choose={choose} />
      <Browser
        key={viewKey(viewer)}
        viewer={viewer}
        selected={selected}
        select={(uri) => {
          location.hash = uri === null ? link("view-as") : link("view-as", uri);
        }}
      />
    </section>
  );
  return (
    <>
      <Why uri={selected ?? ""} />
      <div class="sides">
        {side(one, t("One principal", "一方のプリンシパル"), setOne)}
        {side(other, t("Another principal", "他方のプリンシパル"), setOther)}
      </div>
    </>
  );
}

/** That a URI of an upstream is a spelling that is not served, or perhaps not. */
function Served({ found }: { found: Explanation }) {
  switch (found.served) {
    case "here":
      return null;
    case "only-if-listed":
      return <p class="muted">{t("It is found only if the upstream lists it.", "アップストリームが一覧に含める場合にのみ見つかります。")}</p>;
    case "elsewhere":
      return <p class="muted">{t(`This spelling is not found; the resource is ${found.served_at}, which the rule is about.`, `この表記では見つかりません。リソースは ${found.served_at} で、規則はこれに対するものです。`)}</p>;
    case "nowhere":
      return <p class="muted">{t("It is not found: nothing outside of the prefix of the upstream is served.", "見つかりません。アップストリームの prefix の外は提供されません。")}</p>;
  }
}

function Why({ uri: chosen }: { uri: string }) {
  const [written, setUri] = useState<string | null>(null);
  const [viewer, setViewer] = useState<Viewer>({ principal: "anonymous", groups: [] });
  const [operation, setOperation] = useState("read");
  const [found, setFound] = useState<Explanation | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [asked, setAsked] = useState<{ uri: string; operation: string } | null>(null);
  const shown = written ?? iri(chosen);
  const uri = written === null ? chosen : uriOf(written.trim());
  // What is chosen next is asked about next, whatever was written before.
  useEffect(() => setUri(null), [chosen]);
  // One question has its answer below it, or why it has none.
  const explain = async () => {
    setError(null);
    setFound(null);
    setAsked(null);
    try {
      setFound(await post<Explanation>("explain", { uri, operation, principal: viewer.principal, groups: viewer.groups }));
    } catch (error) {
      setError(error as Error);
    }
  };
  const askWho = () => {
    if (uri !== "") {
      setError(null);
      setFound(null);
      setAsked({ uri, operation });
    }
  };
  return (
    <section aria-label={t("Why", "理由")}>
      <h2>{t("Why can a principal do this, or not?", "なぜ許可または拒否されるのか")}</h2>
      <ViewerChoice label={t("Principal", "プリンシパル")} viewer={viewer} choose={setViewer} />
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void explain();
        }}
      >
        <label>
          {t("Operation", "操作")}
          <select value={operation} onChange={(event) => setOperation(event.currentTarget.value)}>
            {OPERATIONS.map((name) => <option key={name}>{name}</option>)}
          </select>
        </label>
        <label class="wide">
          URI
          <input required value={shown} onInput={(event) => setUri(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">{t("Explain", "説明")}</button>
        <button type="button" aria-disabled={uri === ""} onClick={askWho}>{t("Who may?", "誰に許可されているか")}</button>
      </form>
      <Problem error={error} />
      {asked ? <Who key={`${asked.operation} ${asked.uri}`} uri={asked.uri} operation={asked.operation} /> : null}
      {found ? (
        <div role="status">
          <p>
            <span class={`state ${found.allowed ? "ready" : "failed"}`}>{found.allowed ? t("allowed", "許可") : t("denied", "拒否")}</span>{" "}
            {t(`${found.decided} of ${iri(found.uri)} by ${found.principal}`, `${found.principal} による ${iri(found.uri)} の ${found.decided}`)}
          </p>
          <Served found={found} />
          <Facts
            of={[
              [t("Rule", "規則"), found.rule ? `${found.rule.number}${found.rule.line === null ? "" : t(`, line ${found.rule.line}`, `（${found.rule.line} 行目）`)}` : t("none: the default", "なし（既定）")],
              [t("Glob", "グロブ"), found.rule ? `${found.rule.key} ${found.rule.glob}` : "–"],
              [t("Plugin", "プラグイン"), found.plugin],
              [t("Groups", "グループ"), found.groups.join(", ") || "–"],
              [t("Scopes", "スコープ"), found.scopes.join(" ") || "–"],
            ]}
          />
        </div>
      ) : null}
    </section>
  );
}
