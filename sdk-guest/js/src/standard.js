// Functions of the language that would give wrong results in silence in a component.
//
// - `Math.random`: QuickJS seeds it once, when the component is built, so that every instance would return the same numbers.
// - `toLocaleString` and the like: QuickJS has no `Intl`, and ignores the locale, the time zone and the format that are requested.

/** The state of the generator sfc32 (public domain, Chris Doty-Humphrey): four words of 32 bits. */
let state = seed();

/** A seed from the clocks: milliseconds since 1970, and the fraction of a monotonic clock of nanoseconds. */
function seed() {
  const [wall, monotonic] = [Date.now(), Math.abs(performance.now()) * 1e6];
  return [wall, wall / 2 ** 32, monotonic, monotonic / 2 ** 32].map((word) => word | 0);
}

function next() {
  let [a, b, c, counter] = state;
  const result = (((a + b) | 0) + counter) | 0;
  counter = (counter + 1) | 0;
  a = b ^ (b >>> 9);
  b = (c + (c << 3)) | 0;
  c = (((c << 21) | (c >>> 11)) + result) | 0;
  state = [a, b, c, counter];
  return result >>> 0;
}

/** Seeds the generator for this instance. */
export function reseed() {
  state = seed();
  // The words of the seed are mixed by the first rounds.
  for (let round = 0; round < 15; round++) next();
}

Math.random = () => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
reseed();

/** Makes a method fail when a locale or a format is requested. */
function withoutLocales(prototype, name) {
  const method = prototype[name];
  prototype[name] = function (locales, options) {
    if (locales !== undefined || options !== undefined) {
      throw new TypeError(`${name} has no locales, time zones and formats in a component, because QuickJS has no Intl`);
    }
    return method.call(this);
  };
}

for (const name of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) withoutLocales(Date.prototype, name);
for (const prototype of [Number.prototype, BigInt.prototype]) withoutLocales(prototype, "toLocaleString");
