// Who is subscribed to which resources.

import { iri } from "./iri";
import { number, t } from "./language";
import { link } from "./parts";
import { VirtualTable } from "./table";
import type { WatchedResource } from "./types";

export function SubscriptionTable({ resources, total }: { resources: WatchedResource[]; total: number }) {
  const subscribed = resources.filter(({ subscribers }) => subscribers > 0);
  if (subscribed.length === 0) {
    return <p class="muted">{t("Nobody is subscribed to a resource.", "購読者はいません。")}</p>;
  }
  return (
    <>
      <VirtualTable
        label={t("Table of subscriptions", "購読の表")}
        columns={[
          { head: "URI", width: 40, class: "uri" },
          { head: t("Subscribers", "購読者"), width: 16, class: "figure" },
          { head: t("Principals", "プリンシパル"), width: 24 },
        ]}
        count={subscribed.length}
        keyOf={(index) => subscribed[index]?.uri ?? index}
        row={(index) => {
          const { uri, subscribers, unheard, principals } = subscribed[index]!;
          return [
            <a href={link("resources", uri)}>{iri(uri)}</a>,
            <>
              {number(subscribers)}
              {unheard > 0 ? <span class="muted block">{t(`${number(unheard)} without a stream`, `うちストリームなし ${number(unheard)}`)}</span> : null}
            </>,
            principals.join(", "),
          ];
        }}
      />
      {resources.length < total ? (
        <p class="muted">{t(`The first ${number(resources.length)} of ${number(total)} watched resources.`, `監視中の ${number(total)} 件のうち最初の ${number(resources.length)} 件。`)}</p>
      ) : null}
    </>
  );
}
