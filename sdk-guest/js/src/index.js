export { boolean, date, integer, number, oneOf, optional, text } from "./arguments.js";
export { Config } from "./config.js";
export { BeingPrepared, Denied, Failure, Internal, InvalidRequest, NotFound, Unavailable } from "./failures.js";
export { provider } from "./functions.js";
export { compareChanges, detect, matching, paginate, progressOf, Provider } from "./provider.js";
export { resource } from "./resource.js";
export { PathTemplate, template } from "./template.js";
export { compareText, decodeSegment, decodeUtf8, encodeQuery, encodeSegment, encodeUtf8, splitQuery } from "./text.js";
