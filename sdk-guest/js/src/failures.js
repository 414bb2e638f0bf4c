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

export class Internal extends Failure {}
