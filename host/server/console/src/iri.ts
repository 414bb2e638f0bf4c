// URIs as they are read: with the letters of every language, where that is unambiguous. What is copied, linked or requested is the URI.

/** What is not seen as it is: controls, marks of direction, spaces, what is not assigned, and what joins the letter before it. */
const UNSEEN = /[\p{C}\p{Z}]|^\p{M}|\p{Default_Ignorable_Code_Point}/u;

/** Returns the IRI of a URI (RFC 3987): percent-encoded UTF-8 outside of ASCII is decoded, if encoding it gives the same URI again. */
export function iri(uri: string): string {
  // Beside letters that were not encoded, those that were could not be told apart.
  return /[^\x00-\x7f]/.test(uri) ? uri : uri.replace(/(?:%[89A-F][0-9A-F])+/g, decoded);
}

function decoded(encoded: string): string {
  try {
    const text = decodeURIComponent(encoded);
    return UNSEEN.test(text) || text !== text.normalize("NFC") ? encoded : text;
  } catch {
    return encoded;
  }
}
