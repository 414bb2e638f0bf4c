// Messages of the server: a word between backticks is code.

/** A line of a part of a file that an error shows: `12 | mount = …`, `--> FILE:12:3`. It stays as it is, so that its carets are below their place. */
const IS_OF_FILE = /^\s*(\d*\s*\||-->)/;

/** A message with its code as elements. */
export function Message({ text }: { text: string }) {
  return <>{text.split(/(?<=\n)/).map((line) => (IS_OF_FILE.test(line) ? line : line.split(/`([^`\n]+)`/).map(part)))}</>;
}

/** Every second part was between backticks. */
function part(text: string, at: number) {
  return at % 2 === 1 ? <code key={at}>{text}</code> : text;
}
