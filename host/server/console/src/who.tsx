// Who may perform an operation on a resource: principals and groups, each with the rule that decides.

import { useEffect, useState } from "preact/hooks";
import { post } from "./api";
import { iri } from "./iri";
import { number, t } from "./language";
import { Problem, Waiting } from "./parts";
import type { WhoMay, WhoView } from "./types";

export function Who({ uri, operation }: { uri: string; operation: string }) {
  const [found, setFound] = useState<WhoView | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const ending = new AbortController();
    post<WhoView>("explain/who", { uri, operation }, ending.signal).then(setFound, (error) => ending.signal.aborted || setError(error));
    return () => ending.abort();
  }, [uri, operation]);
  if (!found) {
    return error ? <Problem error={error} /> : <Waiting />;
  }
  const { allowed, denied } = found;
  const rows = [...allowed.items.map((who) => ({ who, isAllowed: true })), ...denied.items.map((who) => ({ who, isAllowed: false }))];
  const more = allowed.total + denied.total - rows.length;
  return (
    <div role="status">
      <p class="uri">{t(`${found.operation} of ${iri(found.uri)}`, `${iri(found.uri)} の ${found.operation}`)}</p>
      {rows.length > 0 ? (
        <div class="scroll" tabIndex={0} role="region" aria-label={t("Table of who may", "許可の表")}>
          <table>
            <thead>
              <tr>
                <th scope="col">{t("Who", "対象")}</th>
                <th scope="col">{t("Decision", "判定")}</th>
                <th scope="col" class="figure">{t("Line", "行")}</th>
                <th scope="col">{t("Glob", "グロブ")}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ who, isAllowed }) => (
                <tr key={`${who.kind} ${who.name}`}>
                  <th scope="row">{nameOf(who)}</th>
                  <td><span class={`state ${isAllowed ? "ready" : "failed"}`}>{isAllowed ? t("allowed", "許可") : t("denied", "拒否")}</span></td>
                  <td class="figure">{who.rule?.line ?? "–"}</td>
                  <td class="uri">{who.rule ? `${who.rule.key} ${who.rule.glob}` : t("none: the default", "なし（既定）")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      <p class="muted">
        {allowed.total === 0
          ? t("Nobody may: no rule allows it.", "許可する規則がないため、誰にも許可されていません。")
          : allowed.items.some(({ kind }) => kind === "others")
            ? t("Everyone may whom nothing denies it.", "拒否されない全員に許可されています。")
          : t("Everyone else is denied it. A member of a group may be denied by another rule that names it.", "ほかは拒否されます。グループのメンバーは別の規則で拒否される場合があります。")}
        {more > 0 ? t(` ${number(more)} more.`, ` ほか ${number(more)} 件。`) : ""}
        {found.cut ? t(" The config names more than were judged.", " すべては判定されていません。") : ""}
      </p>
    </div>
  );
}

function nameOf({ kind, name }: WhoMay): string {
  switch (kind) {
    case "principal":
      return name ?? "";
    case "group":
      return t(`group ${name}`, `グループ ${name}`);
    case "others":
      return t("all whom the config does not name", "設定に名前のない全員");
  }
}
