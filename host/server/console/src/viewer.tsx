// The choice of a principal and its groups.

import { useId, useState } from "preact/hooks";
import { t } from "./language";
import { usePoll } from "./parts";
import type { ConfigView, Viewer } from "./types";

export const LOCAL: Viewer = { principal: "local", groups: [] };

export function ViewerChoice({ label, viewer, choose }: { label: string; viewer: Viewer; choose: (viewer: Viewer) => void }) {
  const id = useId();
  const config = usePoll<ConfigView>("config", 30_000);
  const principals = ["local", "anonymous", ...(config.data?.principals.items ?? [])];
  const groups = config.data?.groups.items.map(({ name }) => name) ?? [];
  return (
    <div class="filters">
      <label>
        {label}
        <Choice
          list={`${id}-principals`}
          value={viewer.principal}
          choose={(text) => choose({ ...viewer, principal: text.trim() || LOCAL.principal })}
        />
        <datalist id={`${id}-principals`}>
          {principals.map((name) => <option key={name} value={name} />)}
        </datalist>
      </label>
      <label>
        {t("Groups, as tokens name them", "グループ（トークンでの名前）")}
        <Choice
          placeholder={t("ISSUER/GROUP, …", "発行者/グループ, …")}
          title={t(
            "The groups that a token of the principal would name, with commas: each is ISSUER/GROUP. Those of the config need not be named.",
            "プリンシパルのトークンに含まれるグループを「発行者/グループ」の形で、コンマ区切りで指定します。設定のグループは指定不要です。",
          )}
          list={`${id}-groups`}
          value={viewer.groups.join(", ")}
          choose={(text) => choose({ ...viewer, groups: text.split(",").map((name) => name.trim()).filter(Boolean) })}
        />
        <datalist id={`${id}-groups`}>
          {groups.map((name) => <option key={name} value={name} />)}
        </datalist>
      </label>
    </div>
  );
}

interface ChoiceProps {
  /** The `id` of the list of suggestions. */
  list: string;
  value: string;
  placeholder?: string;
  title?: string;
  choose: (text: string) => void;
}

/** A box whose text is chosen when it is complete. What is written in it stays until it loses the focus, whatever is drawn meanwhile. */
function Choice({ value, choose, ...attributes }: ChoiceProps) {
  const [written, setWritten] = useState<string | null>(null);
  return (
    <input
      {...attributes}
      value={written ?? value}
      onInput={(event) => setWritten(event.currentTarget.value)}
      onChange={(event) => choose(event.currentTarget.value)}
      onBlur={() => setWritten(null)}
    />
  );
}
