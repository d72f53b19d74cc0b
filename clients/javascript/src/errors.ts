/** What is wrong, in one line: which argument, and the remedy. Never the value of a record. */
export class PrivotError extends Error {
  override name = "PrivotError";
}
