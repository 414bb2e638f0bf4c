// Pages of iterators, whose cursors are data: another instance continues where the last page ended.
//
// A cursor has the number of the iterator, the position in it, and digests of the last paths before that position. The next page starts
// behind the last of these that the iterator still gives, wherever it is now. So the order may be any, as long as it is the same while the
// data are; entries that are added or removed meanwhile neither repeat nor hide others, unless all of these are gone: then some entries may
// come twice.

import { InvalidRequest } from "./failures.js";
import { digest } from "./provider.js";

const ANCHORS = 16;
const DIGITS = 14;
const CURSOR = new RegExp(`^(\\d{1,9}):(\\d{1,12}):((?:[0-9a-f]{${DIGITS}}){0,${ANCHORS}})$`);

/** Returns the page after `cursor` of all listings, which return iterables of `{ path, entry() }`, one after the other. */
export function pageOf(listings, cursor, limit) {
  let [number, position, anchors] = parsed(cursor, listings.length);
  const entries = [];
  for (; number < listings.length; number++, position = 0, anchors = []) {
    const rest = resumed(listings[number], position, anchors);
    ({ position, anchors } = rest);
    for (let next = rest.items.next(); !next.done; next = rest.items.next()) {
      if (entries.length >= Math.max(limit, 1)) return { entries, nextCursor: `${number}:${position}:${anchors.join("")}` };
      position += 1;
      anchors = [...anchors, digest(next.value.path)].slice(-ANCHORS);
      const entry = next.value.entry();
      if (entry) entries.push(entry);
    }
  }
  return { entries };
}

function parsed(cursor, count) {
  if (cursor === undefined) return [0, 0, []];
  const found = CURSOR.exec(cursor);
  if (!found || Number(found[1]) >= count) throw new InvalidRequest("expected a cursor that this provider returned");
  return [Number(found[1]), Number(found[2]), found[3].match(new RegExp(`.{${DIGITS}}`, "g")) ?? []];
}

/** Returns the rest of a listing, its position, and those anchors that are before it. */
function resumed(listing, position, anchors) {
  let items = listing()[Symbol.iterator]();
  if (anchors.length === 0) return { items, position: 0, anchors };
  const seen = new Map();
  let at = 0;
  for (let next = items.next(); !next.done; next = items.next()) {
    at += 1;
    const mark = digest(next.value.path);
    if (!anchors.includes(mark)) continue;
    seen.set(mark, at);
    if (mark === anchors.at(-1)) return { items, position: at, anchors };
  }
  const last = anchors.findLastIndex((mark) => seen.has(mark));
  // The end of the page is gone, so the page ended behind the last entry that is left of it.
  const start = last < 0 ? Math.max(position - anchors.length, 0) : seen.get(anchors[last]);
  items = listing()[Symbol.iterator]();
  for (let skipped = 0; skipped < start && !items.next().done; skipped++);
  return { items, position: start, anchors: anchors.slice(0, last + 1) };
}
