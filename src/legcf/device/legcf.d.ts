// SPDX-License-Identifier: Apache-2.0

/** An id as the file has it: text, or an integer, which is a bigint beyond 2^53. A question takes "42" for 42 as well. */
export type Id = string | number | bigint;

/** A value, several of which one must hold, or conditions that all must hold. */
export type Condition = string | number | boolean | (string | number | boolean)[] | { any?: Condition; not?: Condition; min?: number; max?: number };

/** What is asked for; null is not. */
export interface Request {
  /** A user that the model knows. */
  user?: Id | null;
  /** What somebody has: of someone new, or beside what is known of the user. */
  items?: Iterable<Id> | null;
  /** How many items, at most: 20 by default. */
  k?: number | null;
  /** Whether to leave out what the user has, `items` included: by default yes, unless users of this model take items again. */
  excludeSeen?: boolean | null;
  /** Recommend nothing but these. */
  allow?: Iterable<Id> | null;
  /** Recommend none of these. */
  deny?: Iterable<Id> | null;
  /** What the attributes of items must be. */
  filter?: Record<string, Condition> | null;
  /** At most so many items of one value, by attribute. */
  cap?: Record<string, number> | null;
  /** From 0, the best scores, to 1, as unlike each other as possible. */
  diversity?: number | null;
}

export interface Scored {
  id: Id;
  score: number;
  /** The title, or the id where the file has none. */
  name: string;
  /** "popular" where nothing is known of the user, so that it is what most people have. */
  fallback: "popular" | null;
}

export interface Explanation {
  item: Id;
  score: number;
  /** What item lists add to the score. */
  neighbours: number;
  /** Meta-embeddings in the item's code: what they add, and well-known items they stand for. */
  shared: { meta: number; contribution: number; examples: Scored[] }[];
  /** The user's items that speak for it most. */
  because: Scored[];
  /** A sentence for people. */
  text: string;
}

export type Attribute =
  | { name: string; kind: "text"; values: { value: string; items: number }[]; distinct: number }
  | { name: string; kind: "number"; min: number; max: number };

/** Ids by position. */
export interface Ids {
  readonly length: number;
  at(position: number): Id;
  /** @throws Error where there is no such id. */
  position(id: Id): number;
}

/** A model file that answers questions. It does not change. */
export class Legcf {
  private constructor();

  /**
   * Read a model; every size and the checksum are verified.
   * @param source Bytes, which are used where they are: leave them as they are. Or a Response or a Blob.
   * @throws Error with a sentence where the file is damaged, newer than this reader, or none of legcf's.
   */
  static load(source: ArrayBuffer | ArrayBufferView | Response | Blob): Promise<Legcf>;

  readonly items: Ids;
  readonly users: Ids | null;
  readonly numItems: number;
  readonly numUsers: number;
  /** What the file tells of the training. */
  readonly card: Record<string, unknown>;

  /** The title of the item at a position, or its id. */
  name(position: number): string;
  /** How many users have the item at a position. */
  popularity(position: number): number;
  /** What a user is known to have. */
  history(user: Id): Id[];
  /** What filters and caps may ask for. */
  attributes(): Attribute[];

  recommend(request?: Request): Scored[];
  similar(request: { item: Id; k?: number | null }): Scored[];
  explain(request: { user?: Id | null; items?: Iterable<Id> | null; item: Id }): Explanation;
  explain(request: { user?: Id | null; items?: Iterable<Id> | null; item: Id[] }): Explanation[];
}
