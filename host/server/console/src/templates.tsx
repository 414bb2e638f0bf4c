// Templates as forms, whose fields are completed while they are written.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { parseTemplate } from "url-template";
import { post } from "./api";
import { t } from "./language";
import { Problem, Waiting } from "./parts";
import { as, type Template, viewKey, type Viewer } from "./types";

export function Templates({ viewer, select }: { viewer: Viewer | null; select: (uri: string) => void }) {
  const [templates, setTemplates] = useState<Template[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const ending = new AbortController();
    const load = async () => {
      const all: Template[] = [];
      let cursor: string | null = null;
      do {
        const page: { items: Template[]; next: string | null } = await post("browse/templates", { ...as(viewer), cursor }, ending.signal);
        all.push(...page.items);
        cursor = page.next;
      } while (cursor);
      setTemplates(all);
    };
    load().catch((error) => ending.signal.aborted || setError(error));
    return () => ending.abort();
  }, [viewKey(viewer)]);
  if (!templates) {
    return error ? <Problem error={error} /> : <Waiting />;
  }
  if (templates.length === 0) {
    return <p class="muted">{t("There are no templates.", "テンプレートはありません。")}</p>;
  }
  return (
    <>
      {templates.map((template) => (
        <TemplateForm key={template.template} viewer={viewer} template={template} select={select} />
      ))}
    </>
  );
}

function TemplateForm({ viewer, template, select }: { viewer: Viewer | null; template: Template; select: (uri: string) => void }) {
  const id = useId();
  const [values, setValues] = useState<Record<string, string>>({});
  const [completions, setCompletions] = useState<Record<string, string[]>>({});
  const asked = useRef(0);
  const complete = async (variable: string, value: string) => {
    const number = (asked.current += 1);
    const known = Object.fromEntries(Object.entries(values).filter(([name, text]) => name !== variable && text !== ""));
    try {
      const found = await post<{ values: string[] }>("browse/complete", { ...as(viewer), template: template.template, variable, value, known });
      // A slower answer to what was written before is none to what is written now.
      if (number === asked.current) {
        setCompletions((now) => ({ ...now, [variable]: found.values }));
      }
    } catch {
      // Without completions the form works.
    }
  };
  return (
    <form
      class="template"
      onSubmit={(event) => {
        event.preventDefault();
        select(parseTemplate(template.template).expand(values));
      }}
    >
      <h3>{template.title ?? template.name}</h3>
      <p class="muted uri">{template.template}</p>
      {template.description ? <p>{template.description}</p> : null}
      <div class="filters">
        {template.variables.map((variable) => (
          <label key={variable}>
            {variable}
            <input
              list={`${id}-${variable}`}
              value={values[variable] ?? ""}
              onFocus={() => void complete(variable, values[variable] ?? "")}
              onInput={(event) => {
                const value = event.currentTarget.value;
                setValues({ ...values, [variable]: value });
                void complete(variable, value);
              }}
            />
            <datalist id={`${id}-${variable}`}>
              {completions[variable]?.map((value) => <option key={value} value={value} />)}
            </datalist>
          </label>
        ))}
        <button type="submit">{t("Read", "読む")}</button>
      </div>
    </form>
  );
}
