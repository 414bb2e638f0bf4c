// URIs as they are read and written: with the letters of every language, where that is unambiguous. What is copied, linked or requested is the URI.

/** What is not seen as it is: controls, marks of direction, spaces, what is not assigned, and what joins the letter before it. */
const UNSEEN = /[\p{C}\p{Z}]|^\p{M}|\p{Default_Ignorable_Code_Point}/u;

/** What no URI contains (RFC 3986, section 2): controls, spaces, some signs, and all that is not ASCII. */
const NOT_IN_URIS = /[^\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+/g;

/** Returns the IRI of a URI (RFC 3987): percent-encoded UTF-8 outside of ASCII is decoded, if encoding it gives the same URI again. */
export function iri(uri: string): string {
  // Beside letters that were not encoded, those that were could not be told apart.
  return /[^\x00-\x7f]/.test(uri) ? uri : uri.replace(/(?:%[89A-F][0-9A-F])+/g, decoded);
}

/** Returns the URI of an IRI (RFC 3987, section 3.1), as the commands do. What is percent-encoded stays as it is. */
export function uriOf(iri: string): string {
  return iri.replace(NOT_IN_URIS, (text) => [...new TextEncoder().encode(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""));
}

function decoded(encoded: string): string {
  try {
    const text = decodeURIComponent(encoded);
    return UNSEEN.test(text) || text !== text.normalize("NFC") ? encoded : text;
  } catch {
    return encoded;
  }
}
