// Failures: why a call returns no result.

export class Failure extends Error {
  get name() {
    return this.constructor.name;
  }
}

export class NotFound extends Failure {
  constructor(message = "not found") {
    super(message);
  }
}

export class InvalidRequest extends Failure {}

export class Denied extends Failure {}

export class Unavailable extends Failure {
  constructor(reason, { retryAfter } = {}) {
    super(reason);
    this.retryAfter = retryAfter;
  }
}

/** The host's own keys of the config. Outside of a component it prepares, and does not say how far. */
let hostValue = (key) => (key === "mcp-host/limits.prepare.cpu-ms" ? "60000" : undefined);

/** Sets what asks the host for a key. */
export function askHost(get) {
  hostValue = get;
}

export class BeingPrepared extends Unavailable {
  constructor() {
    if (hostValue("mcp-host/limits.prepare.cpu-ms") === undefined) {
      super("it has to be prepared, which the config of the host does not allow");
      return;
    }
    const percent = hostValue("mcp-host/prepare.percent");
    super(`it is being prepared${percent === undefined ? "" : `, ${percent} %`}`, { retryAfter: 1000 });
  }
}

export class Internal extends Failure {}
