// Context: the passages that are chosen for a question within a budget of tokens.

import { useState } from "preact/hooks";
import { post } from "../api";
import { iri } from "../iri";
import { number, t } from "../language";
import { lineRange, link, Meter, Problem } from "../parts";
import { saidEach } from "../reasons";
import { as, type ContextView, type Passage, type Viewer } from "../types";
import { LOCAL, ViewerChoice } from "../viewer";

export function Context({ isUser }: { isUser: boolean }) {
  const [chosen, setViewer] = useState<Viewer>(LOCAL);
  const viewer = isUser ? null : chosen;
  const [query, setQuery] = useState("");
  const [budget, setBudget] = useState(4000);
  const [found, setFound] = useState<{ view: ContextView; budget: number } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const choose = async () => {
    setError(null);
    try {
      setFound({ view: await post<ContextView>("browse/context", { ...as(viewer), query: query.trim() || null, budget }), budget });
    } catch (error) {
      setFound(null);
      setError(error as Error);
    }
  };
  return (
    <>
      {viewer ? <ViewerChoice label={t("As seen by", "表示するプリンシパル")} viewer={viewer} choose={setViewer} /> : null}
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void choose();
        }}
      >
        <label class="wide">
          {t("Question; without one, by priority", "質問（空なら優先度で選択）")}
          <input type="search" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
        </label>
        <label>
          {t("Budget in tokens", "トークンの上限")}
          <input type="number" min={1} max={200000} required value={budget} onInput={(event) => setBudget(event.currentTarget.valueAsNumber || 1)} />
        </label>
        <button type="submit" class="primary">{t("Choose passages", "抜粋を選ぶ")}</button>
      </form>
      <Problem error={error} />
      {found ? <Selection view={found.view} budget={found.budget} /> : null}
    </>
  );
}

function Selection({ view, budget }: { view: ContextView; budget: number }) {
  return (
    <>
      <Meter label={t("Tokens", "トークン")} used={view.tokens} limit={budget} show={(value) => number(value)} />
      <p class="muted" role="status">
        {t(view.passages.length === 1 ? "1 passage." : `${number(view.passages.length)} passages.`, `${number(view.passages.length)} 件の抜粋。`)}{" "}
        {view.over_budget > 0 ? t(`${number(view.over_budget)} more do not fit the budget.`, `${number(view.over_budget)} 件は上限に収まりません。`) : ""}{" "}
        {view.near_copies > 0 ? t(`${number(view.near_copies)} repeat chosen ones.`, `${number(view.near_copies)} 件は重複です。`) : ""}{" "}
        {view.partial ? t("There may be better ones.", "より良いものがある可能性があります。") : ""}{" "}
        {view.incomplete.length > 0 ? t(`Not completely indexed: ${view.incomplete.join(", ")}.`, `索引が未完: ${view.incomplete.join(", ")}。`) : ""}
      </p>
      <Passages of={view.passages} isWhole />
      {view.left_out.length > 0 ? (
        <section aria-label={t("What does not fit", "収まらないもの")}>
          <h2>{t("What does not fit the budget, the best first", "上限に収まらないもの（関連度順）")}</h2>
          <Passages of={view.left_out} isWhole={false} />
          {view.left_out.length < view.over_budget ? (
            <p class="muted">{t(`The first ${number(view.left_out.length)} of ${number(view.over_budget)}.`, `${number(view.over_budget)} 件のうち最初の ${number(view.left_out.length)} 件。`)}</p>
          ) : null}
        </section>
      ) : null}
    </>
  );
}

/** Passages, with their texts or without. */
function Passages({ of, isWhole }: { of: Passage[]; isWhole: boolean }) {
  return (
    <ol class="hits">
      {of.map(({ resource, text, lines, tokens, reason }, at) => (
        <li key={at}>
          <a href={link("resources", resource.uri)}>{resource.title ?? resource.name}</a>
          <span class="muted block uri">{iri(resource.uri)} ({lineRange(lines)})</span>
          <span class="muted block">
            {saidEach(reason)}; {t(`${number(tokens)} tokens`, `${number(tokens)} トークン`)}
            {resource.priority === null || reason.includes("priority ") ? "" : `; ${t("priority", "優先度")} ${number(resource.priority, 2)}`}
            {resource.audience.length === 0 ? "" : `; ${t("for", "対象")} ${resource.audience.join(", ")}`}
          </span>
          {resource.notices.map((notice) => <p class="problem" key={notice}>{notice}</p>)}
          {isWhole ? <p class="snippet">{text}</p> : null}
        </li>
      ))}
    </ol>
  );
}
