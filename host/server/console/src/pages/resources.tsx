// Resources: what is served, as `local` sees it or another principal.

import { useState } from "preact/hooks";
import { Browser } from "../browser";
import { t } from "../language";
import { link } from "../parts";
import { viewKey, type Viewer } from "../types";
import { LOCAL, ViewerChoice } from "../viewer";

export function Resources({ selected, isUser }: { selected: string | null; isUser: boolean }) {
  const [chosen, setViewer] = useState<Viewer>(LOCAL);
  const viewer = isUser ? null : chosen;
  return (
    <>
      {viewer ? <ViewerChoice label={t("As seen by", "表示するプリンシパル")} viewer={viewer} choose={setViewer} /> : null}
      <Browser
        key={viewKey(viewer)}
        viewer={viewer}
        selected={selected}
        select={(uri) => {
          location.hash = uri === null ? link("resources") : link("resources", uri);
        }}
      />
    </>
  );
}
