// SPDX-License-Identifier: Apache-2.0
// Read a legcf model file and answer as Python's `Scorer` does (legcf.d.ts). What is wrong is an Error.

const VERSION = "2";
const LARGEST = 1e6; // stored number
const SPAN = { 1: 1.6, 2: 2.0, 3: 2.5, 4: 2.6, 5: 3.1, 6: 3.6, 8: 4.5 }; // of steps, by bits
const TOGETHER = 10; // bits of a table looked up at once
const UNSIGNED = { U8: Uint8Array, U16: Uint16Array, U32: Uint32Array, U64: BigUint64Array };
const INTEGERS = { ...UNSIGNED, I8: Int8Array, I16: Int16Array, I32: Int32Array, I64: BigInt64Array };
const TYPES = new Map(Object.entries({ ...INTEGERS, F16: Uint16Array, F32: Float32Array, F64: Float64Array }));

const { ceil, floor, fround, max, min, sqrt } = Math;
const expect = (condition, complaint) => { if (!condition) throw new Error(complaint); };
const within = (value, low, high) => typeof value === "number" && value >= low && value <= high;
const isSize = (value, largest) => Number.isSafeInteger(value) && within(value, 0, largest);
const count = (value) => { expect(isSize(value, 2 ** 40), "a size is wrong"); return value; };
const bitsFor = (values) => max(1, 32 - Math.clz32(values - 1));
const short = (text) => JSON.stringify(String(text).slice(0, 100));
const filled = (length, value) => new Float32Array(length).map((_, i) => value(i));
const toMean = (values) => { const mean = values.reduce((sum, value) => sum + value, 0) / values.length; return values.map((value) => value / mean); };
const sum32 = (values) => values.reduce((sum, value) => fround(sum + value), 0);
const power = (value, exponent) => fround(max(value, 1) ** -exponent);
const order = (values) => byScore([...values.keys()], values);

// In the order of the file format.
const dot = (a, b, from = 0) => {
  let p = 0, q = 0, r = 0, s = 0, i = 0;
  while (i < a.length - 3) {
    p += a[i++] * b[from++];
    q += a[i++] * b[from++];
    r += a[i++] * b[from++];
    s += a[i++] * b[from++];
  }
  while (i < a.length) p += a[i++] * b[from++];
  return p + q + (r + s);
};

// Parse Python's JSON, which has NaN.
const parse = (text) => {
  try { return JSON.parse(text); } catch { return JSON.parse(text.replace(/-?\b(NaN|Infinity)\b/g, "null")); }
};

const bytesOf = async (source) => {
  if (source?.arrayBuffer) {
    expect(source.ok !== false, `The model file was not found: the server answered ${source.status}.`);
    source = await source.arrayBuffer();
  }
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  expect(source instanceof ArrayBuffer, "Give the model as bytes, a Response or a Blob.");
  return new Uint8Array(source);
};

const readHeader = (bytes) => {
  let header;
  try {
    const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
    expect(length <= min(bytes.length - 8, 2 ** 20), "");
    header = [JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length))), 8 + length];
  } catch { /* not ours */ }
  const metadata = header?.[0]?.__metadata__;
  expect(metadata?.format === "legcf-serving", "This is not a legcf model file.");
  const advice = metadata.version > VERSION ? "it is newer, take the legcf.js of the legcf that wrote it" : "export the model again";
  expect(metadata.version === VERSION, `The model file has format version ${short(metadata.version)} and legcf.js reads ${VERSION}: ${advice}.`);
  expect(bytes.length < 2 ** 28, "The model file is larger than 256 MB.");
  return header;
};

// Give an array by name, types and shape.
const readParts = (header, data) => {
  const parts = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const { dtype, shape, data_offsets: [start, end] } = entry, type = TYPES.get(dtype);
    expect(type && shape.length < 3 && [...shape, start, end].every((n) => isSize(n, data.length)), `${name} is wrong`);
    expect(end - start === shape.reduce((size, n) => size * n, type.BYTES_PER_ELEMENT), `${name} is wrong`);
    parts.set(name, { dtype, shape, type, start, end });
  }
  let position = 0;
  for (const { start, end } of [...parts.values()].sort((a, b) => a.start - b.start || a.end - b.end)) {
    expect(start === position, "arrays overlap or leave holes");
    position = end;
  }
  expect(position === data.length, "it is cut short or longer");
  const part = (name, types, ...sizes) => {
    const { dtype, shape, type, start, end } = parts.get(name) ?? {};
    expect(dtype in types && (sizes.length ? String(sizes) === String(shape) : shape.length === 1), `${name} is wrong`);
    const bytes = data.subarray(start, end);
    return type.BYTES_PER_ELEMENT === 1 ? new type(bytes.buffer, bytes.byteOffset, bytes.length) : new type(bytes.slice().buffer);
  };
  const floats = (name, ...sizes) => {
    let values = part(name, { F16: 1, F32: 1 }, ...sizes);
    if (values instanceof Uint16Array) values = Float32Array.from(values, half);
    expect(values.every((value) => within(value, -LARGEST, LARGEST)), `${name} is wrong`);
    return values;
  };
  return Object.assign(part, { floats, bytes: (name, ...sizes) => part(name, { U8: 1 }, ...sizes), has: (name) => parts.has(name), size: data.length });
};

const half = (bits) => {
  const exponent = bits >> 10 & 31, digits = bits & 1023;
  return (bits >> 15 ? -1 : 1) * (exponent === 31 ? NaN : exponent ? (1024 + digits) * 2 ** (exponent - 25) : digits * 2 ** -24);
};

// Check SHA-256, the checksum's own digits as zeros.
const verify = async (bytes, start, checksum) => {
  expect(globalThis.crypto?.subtle, "browsers check it on https, localhost and in files only");
  const field = `"checksum":"${checksum}"`, at = new TextDecoder("latin1").decode(bytes.subarray(0, start)).indexOf(field);
  const digits = bytes.subarray(at + 12, at + 76), kept = digits.slice();
  digits.fill(48);
  const digest = crypto.subtle.digest("SHA-256", bytes); // of a copy
  digits.set(kept);
  let found = "";
  for (const byte of new Uint8Array(await digest)) found += (byte + 256).toString(16).slice(1);
  expect(found === checksum, "its checksum does not match");
};

// Values of so many bits, lowest bit first.
class Bits {
  constructor(bytes, bits, length, limit = Infinity) {
    expect(bits >= 1 && bits <= 53 && bytes.length === ceil(length * bits / 8), "packed values are wrong");
    const size = bytes.length + 4; // `read` looks ahead
    if (bytes.byteOffset + size > bytes.buffer.byteLength) {
      const longer = new Uint8Array(size);
      longer.set(bytes);
      bytes = longer;
    }
    this.view = new DataView(bytes.buffer, bytes.byteOffset, size);
    this.bits = bits;
    for (let i = 0; i < length && limit < 2 ** bits; i++) expect(this.at(i) < limit, "packed values are wrong");
  }

  at(index) {
    const { view, bits } = this, start = index * bits;
    if (bits < 26) return read(view, start) & (1 << bits) - 1;
    let value = 0;
    for (let done = 0; done < bits; done += 24) value += (read(view, start + done) & (1 << min(24, bits - done)) - 1) * 2 ** done;
    return value;
  }
}

// Read 25 bits.
const read = (view, bit) => view.getInt32(bit >>> 3, true) >> (bit & 7);

// Sorted pairs: Elias-Fano codes of row · columns + column.
class Pairs {
  constructor(part, name, length, rows, columns) {
    const high = part.bytes(`${name}.high`), low = part.bytes(`${name}.low`), universe = rows * columns;
    expect(universe < 2 ** 53 && length <= 8 * high.length, `${name} is wrong`);
    let bits = 0;
    while (2 ** (bits + 1) <= universe / max(length, 1)) bits++;
    Object.assign(this, { high, columns, unit: 2 ** bits, low: bits ? new Bits(low, bits, length) : null });
    expect(high.length === ceil((length + floor(universe / this.unit) + 1) / 8), `${name} is wrong`);
    this.ones = new Uint32Array((high.length >>> 5) + 2); // before every 32nd byte
    let last = -1;
    const found = this.walk(0, 0, (key, number, bit) => {
      expect(number < length && key > last && key < universe, `${name} is wrong`);
      last = key;
      this.ones[(bit >>> 8) + 1]++;
    });
    expect(found === length, `${name} is wrong`);
    this.ones.forEach((ones, i) => { this.ones[i] = ones + (this.ones[i - 1] ?? 0); });
  }

  // Visit keys from a bit on, until a visit returns true.
  walk(bit, number, visit) {
    const { high, low, unit } = this;
    for (let at = bit >>> 3, kept = 255 << (bit & 7); at < high.length; at++, kept = 255) {
      for (let rest = high[at] & kept; rest; rest &= rest - 1, number++) {
        const place = at * 8 + 31 - Math.clz32(rest & -rest);
        if (visit((place - number) * unit + (low ? low.at(number) : 0), number, place)) return number;
      }
    }
    return number;
  }

  forEach(visit) {
    let row = 0, lowest = 0;
    this.walk(0, 0, (key) => {
      for (; key >= lowest + this.columns; lowest += this.columns) row++;
      visit(row, key - lowest);
    });
  }

  row(row) {
    const { ones, high, columns } = this, lowest = row * columns, bucket = floor(lowest / this.unit), items = [];
    let from = 0, to = ones.length; // a key stands behind as many zeros as its high part counts
    while (to - from > 1) {
      const middle = from + to >>> 1;
      if (middle * 256 - ones[middle] < bucket) from = middle; else to = middle;
    }
    let bit = from * 256;
    for (let zeros = bit - ones[from]; zeros < bucket; bit++) zeros += ~high[bit >>> 3] >>> (bit & 7) & 1;
    let first = bit - bucket;
    this.walk(bit, first, (key) => {
      if (key >= lowest + columns) return true;
      if (key >= lowest) items.push(key - lowest); else first++;
    });
    return { items, first };
  }
}

class Texts {
  constructor(part, name, length) {
    const sizes = part(`${name}.lengths`, UNSIGNED, length);
    this.bytes = part.bytes(`${name}.text`);
    this.starts = new Uint32Array(length + 1);
    let end = 0;
    sizes.forEach((size, i) => { this.starts[i + 1] = end += Number(size); });
    expect(end === this.bytes.length, `${name} is wrong`);
  }

  at(index) { return utf8.decode(this.bytes.subarray(this.starts[index], this.starts[index + 1])); }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

// Integers beyond 2^53 are BigInts.
class Ids {
  constructor(part, name, { kind, first }, length, noun) {
    Object.assign(this, { length, noun, isText: kind === "text", first: null });
    if (this.isText) this.texts = new Texts(part, name, length);
    else if (kind !== "range") this.values = part(`${name}.values`, INTEGERS, length);
    else {
      expect(/^-?\d{1,19}$/.test(first) && Math.abs(first) < 2 ** 62, `${name} is wrong`);
      this.first = BigInt(first);
    }
  }

  at(position) {
    if (this.isText) return this.texts.at(position);
    const id = this.values ? this.values[position] : this.first + BigInt(position);
    return Number.isSafeInteger(Number(id)) ? Number(id) : id;
  }

  // The text "42" finds the integer 42, and the other way round.
  position(id) {
    const key = String(id);
    let position = 0;
    if (this.isText || /^(0|-?[1-9]\d*)$/.test(key)) {
      if (this.first === null) position = (this.slots ?? this.index())[this.slot(key)];
      else position = Number(BigInt(key) - this.first) + 1;
    }
    expect(within(position, 1, this.length), `Unknown ${this.noun} id ${short(id)}: ids of this model look like ${[0, 1, 2].slice(0, this.length).map((i) => short(this.at(i))).join(", ")}.`);
    return position - 1;
  }

  positions(ids) { return Array.from(ids ?? [], (id) => this.position(id)); }

  // Hash positions from 1 on, with a drawn seed: no file can be made for long chains.
  index() {
    this.slots = new Uint32Array(2 ** (1 + bitsFor(this.length + 1)));
    this.seed = Math.random() * 2 ** 32;
    for (let i = 0; i < this.length; i++) this.slots[this.slot(String(this.at(i)))] = i + 1;
    return this.slots;
  }

  slot(key) {
    let code = this.seed;
    for (let i = 0; i < key.length; i++) code = Math.imul(code ^ key.charCodeAt(i), 0x01000193);
    for (code ^= code >>> 15; ; code++) {
      const slot = code & this.slots.length - 1, position = this.slots[slot];
      if (!position || String(this.at(position - 1)) === key) return slot;
    }
  }
}

const scaleFactors = (top, largest) => {
  expect(top > 0 && within(top, 0, largest), "a scale is wrong");
  return filled(256, (step) => top * 1.03 ** -step);
};

// Rows of float32, or of bytes in units of the row's scale.
class Matrix {
  constructor(part, name, { shape, top }) {
    const [length, width] = shape.map(count);
    expect(length && width, `${name} is wrong`);
    Object.assign(this, { length, width, steps: null, values: top === undefined ? part.floats(`${name}.values`, ...shape) : part(`${name}.values`, { I8: 1 }, ...shape) });
    if (top === undefined) return;
    this.steps = part.bytes(`${name}.scale`, length);
    this.factors = scaleFactors(top, LARGEST / 127);
  }

  scale(row) { return this.steps ? this.factors[this.steps[row]] : 1; }

  vector(row, out = new Float32Array(this.width)) {
    const { values, width } = this, scale = this.scale(row);
    for (let i = 0; i < width; i++) out[i] = values[row * width + i] * scale;
    return out;
  }

  scores(query, out) {
    const vector = new Float32Array(this.width);
    for (let row = 0; row < out.length; row++) out[row] = dot(query, this.vector(row, vector));
    return out;
  }
}

// Rows Σ_k weights[p, k] · codebook[columns[p, k]].
class CodebookTable {
  constructor(part, name, { weights }, book) {
    expect(book && book.length < 2 ** 25, `${name} is wrong`);
    Object.assign(this, { weights: new Matrix(part, `${name}.weights`, weights), width: book.width });
    this.book = new Float32Array(book.values.length);
    for (let code = 0; code < book.length; code++) book.vector(code, this.book.subarray(code * book.width, (code + 1) * book.width));
    this.length = this.weights.length;
    this.terms = this.weights.width;
    this.columns = new Bits(part.bytes(`${name}.columns`), bitsFor(book.length), this.weights.values.length, book.length);
  }

  code(row, visit) { this.weights.vector(row).forEach((weight, term) => visit(weight, this.columns.at(row * this.terms + term))); }

  vector(row, out = new Float32Array(this.width)) {
    out.fill(0);
    this.code(row, (weight, code) => { for (let i = 0, at = code * this.width; i < out.length; i++, at++) out[i] += fround(weight * this.book[at]); });
    return out;
  }

  scores(query, out) {
    const { book, width, terms, weights: { values } } = this, products = filled(book.length / width, (code) => dot(query, book, code * width));
    // unpacked once: twice as fast
    const columns = this.codes ??= new Uint32Array(values.length).map((_, at) => this.columns.at(at));
    const weights = this.factors ??= filled(values.length, (at) => values[at] * this.weights.scale(floor(at / terms)));
    for (let row = 0, at = 0; row < out.length; row++) {
      let sum = 0;
      for (let term = 0; term < terms; term++, at++) sum = fround(sum + fround(products[columns[at]] * weights[at]));
      out[row] = sum;
    }
    return out;
  }
}

// Even steps around zero in units of the row's scale.
class QuantisedTable {
  constructor(part, name, { shape, bits, top }) {
    const [length, width] = shape.map(count);
    expect(width && Object.hasOwn(SPAN, bits), `${name} is wrong`);
    Object.assign(this, { length, width, bits, factors: scaleFactors(top, LARGEST), steps: part.bytes(`${name}.scale`, length) });
    this.values = new Bits(part.bytes(`${name}.values`), bits, length * width);
    this.levels = filled(1 << bits, (i) => (i + 0.5 - (1 << bits) / 2) * (2 * SPAN[bits] / (1 << bits)));
  }

  vector(row, out = new Float32Array(this.width)) {
    for (let i = 0; i < out.length; i++) out[i] = this.levels[this.values.at(row * this.width + i)] * this.factors[this.steps[row]];
    return out;
  }

  // Look up what a few neighbouring values add together.
  scores(query, out) {
    const { width, bits, levels, steps, factors, values: { view } } = this, group = max(1, floor(TOGETHER / bits)), size = 1 << group * bits;
    const sums = new Float64Array(ceil(width / group) * size), unit = fround(levels[1] - levels[0]), grid = 2 ** 24 * max(...query.map(Math.abs));
    query.forEach((number, i) => {
      const factor = number + grid - grid, // its sums are exact
        from = floor(i / group) * size, known = 2 ** (i % group * bits);
      for (let value = levels.length - 1; value >= 0; value--) {
        for (let k = 0; k < known; k++) sums[from + value * known + k] = sums[from + k] + factor * (value - (levels.length - 1) / 2);
      }
    });
    const groupBits = group * bits;
    for (let row = 0, bit = 0; row < out.length; row++) {
      const end = bit + width * bits;
      let sum = 0, from = 0;
      for (; bit + groupBits <= end; bit += groupBits, from += size) sum += sums[from + (read(view, bit) & size - 1)];
      if (bit < end) sum += sums[from + (read(view, bit) & (1 << end - bit) - 1)];
      bit = end;
      out[row] = fround(sum) * fround(unit * factors[steps[row]]);
    }
    return out;
  }
}

const readTable = (part, name, config, length, book) => {
  const table = config.kind === "full" ? new Matrix(part, `${name}.table`, config.table)
    : config.kind === "packed" ? new QuantisedTable(part, name, config) : new CodebookTable(part, name, config, book);
  expect(table.length === length, `${name} is wrong`);
  return table;
};

class TextColumn {
  constructor(part, name, { values, pairs }, items) {
    Object.assign(this, { items, texts: new Texts(part, `${name}.values`, count(values)), pairs: new Pairs(part, name, count(pairs), items, values), counts: new Uint32Array(values) });
    expect(values, `${name} is wrong`);
    this.pairs.forEach((_, value) => { this.counts[value]++; });
  }

  equal(values) {
    const wanted = new Set(values.map(String)), chosen = this.counts.map((_, i) => wanted.has(this.texts.at(i))), inside = new Uint8Array(this.items);
    this.pairs.forEach((item, value) => { inside[item] |= chosen[value]; });
    return inside;
  }

  between() { expect(false, "holds text, which has no min and max."); }

  keys(item) { return this.pairs.row(item).items; }

  describe() { return { kind: "text", values: order(this.counts).slice(0, 100).map((i) => ({ value: this.texts.at(i), items: this.counts[i] })), distinct: this.counts.length }; }
}

// A number of each item or none: its rank among all, from 1 on.
class NumberColumn {
  constructor(part, name, { levels, bits }, items) {
    this.levels = Float64Array.from(part(`${name}.levels`, { ...INTEGERS, F32: 1, F64: 1 }, count(levels)), Number);
    expect(levels && this.levels.every((level, i) => Number.isFinite(level) && !(level <= this.levels[i - 1])), `${name} is wrong`);
    expect(bits <= 32, `${name} is wrong`);
    this.ranks = new Bits(part.bytes(`${name}.ranks`), count(bits), items, levels + 1);
    this.having = (test) => { const chosen = [false, ...this.levels].map((level, i) => i && test(level)); return new Uint8Array(items).map((_, item) => chosen[this.ranks.at(item)]); };
  }

  equal(values) {
    const wanted = new Set(values.map((value) => {
      const number = typeof value === "boolean" ? NaN : parseFloat(value);
      expect(number === Number(value), `holds numbers, and ${short(value)} is none.`);
      return number;
    }));
    return this.having((level) => wanted.has(level));
  }

  between(low, high) { return this.having((level) => level >= (low ?? -Infinity) && level <= (high ?? Infinity)); }

  keys(item) { return [this.ranks.at(item)].filter(Boolean); }

  describe() { return { kind: "number", min: this.levels[0], max: this.levels.at(-1) }; }
}

const mask = (column, condition) => {
  if (Object(condition) !== condition || Array.isArray(condition)) return column.equal([condition].flat());
  let all = null;
  for (const word in condition) {
    expect(/^(any|not|min|max)$/.test(word), "is asked for by any, not, min and max alone.");
    const one = word.startsWith("m") ? column.between(condition.min, condition.max) : mask(column, condition[word]);
    all = one.map((inside, item) => (word === "not" ? 1 - inside : inside) & (all ? all[item] : 1));
  }
  return all ?? column.equal([]);
};

const byScore = (items, scores) => items.sort((a, b) => scores[b] - scores[a] || a - b);

// Return the k highest scores' positions, lower ones first among equals, −∞ left out.
const best = (scores, k) => {
  expect(Number.isSafeInteger(k) && k > 0, "k is a whole number of at least 1.");
  const kept = new Uint32Array(min(scores.length, max(2 * k, 64)));
  let length = 0, bar = -Infinity;
  for (let item = 0; item < scores.length; item++) {
    if (scores[item] > bar) {
      kept[length++] = item;
      if (length > k && length === kept.length) bar = scores[byScore(kept, scores)[(length = k) - 1]];
    }
  }
  return Array.from(byScore(kept.subarray(0, length), scores).subarray(0, k));
};

// Cholesky: the lower half of the system is read.
const solve = (system, sides) => {
  const n = sqrt(system.length);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = system[i * n + j];
      for (let k = 0; k < j; k++) sum -= system[i * n + k] * system[j * n + k];
      system[i * n + j] = i > j ? sum / system[j * n + j] : sqrt(sum);
    }
  }
  return sides.map((side) => {
    const x = Float64Array.from(side);
    for (let i = 0; i < n; x[i] /= system[i * n + i], i++) for (let k = 0; k < i; k++) x[i] -= system[i * n + k] * x[k];
    for (let i = n - 1; i >= 0; i--) {
      x[i] /= system[i * n + i];
      for (let k = 0; k < i; k++) x[k] -= system[i * n + k] * x[i];
    }
    return x;
  });
};

const addProduct = (matrix, row, weight) => {
  for (let i = 0; i < row.length; i++) {
    const factor = weight * row[i], from = i * row.length;
    for (let j = 0; j <= i; j++) matrix[from + j] += factor * row[j];
  }
};

const sentence = (opening, items, shared) => {
  const named = (some) => some.slice(0, 2).map(({ name }) => name).join(" and ");
  if (items.length) return `${opening} ${named(items.slice(0, 2).filter(({ score }) => score >= 0.4 * items[0].score))}.`;
  return shared[0]?.examples.length ? `For people who like ${named(shared[0].examples)}.` : "It fits this taste.";
};

export class Legcf {
  // Read bytes (not copied), a Response or a Blob.
  static async load(source) {
    const bytes = await bytesOf(source), [header, start] = readHeader(bytes), { config, card, checksum } = header.__metadata__;
    try {
      const part = readParts(header, bytes.subarray(start));
      await verify(bytes, start, checksum);
      return new Legcf(part, parse(config.replace(/("first": ?)(-?\d{16,})/g, '$1"$2"')), parse(card)); // ids beyond 2^53 stay exact
    } catch (error) {
      throw new Error(`The model file is damaged (${error.message}): export or copy it again.`);
    }
  }

  constructor(part, config, card) {
    const items = count(config.items), book = "codebook" in config ? new Matrix(part, "codebook", config.codebook) : null;
    expect(/^(int8|float16|float32)$/.test(config.dtype) && card.constructor === Object && !config.neighbour_scale, "dtype is wrong");
    Object.assign(this, { card, numItems: items, numUsers: 0, users: null });
    this.table = readTable(part, "item_rows", config.item_rows, items, book);
    this.items = new Ids(part, "ids.items", config.item_ids, items, "item");
    this.counts = new Bits(part.bytes("popularity"), count(config.popularity.bits), items);
    this.bias = part.has("item_bias") ? part.floats("item_bias", items) : null;
    this.titles = part.has("titles.text") ? new Texts(part, "titles", items) : null;
    this.pooling = config.pooling;
    this.repeats = config.repeats;
    expect(this.counts.bits <= 32 && (!this.pooling || within(this.pooling.user_power, -4, 4) && within(this.pooling.item_power, -4, 4) && within("half_life" in this.pooling ? this.pooling.half_life : 1, 1e-9, 1e12)), "pooling is wrong");
    this.foldIn = { unobserved: 0.1, ridge: 1e-3, damping: 0.5, scale: 1, ...config.fold_in.user };
    const settings = Object.values(this.foldIn);
    expect(settings.length === 4 && settings.every((value) => within(value, 0, 1e12)), "fold_in is wrong");
    if ("users" in config) this.readUsers(part, config, items, book);
    if ("lists" in config) {
      const { entries, bits, levels, user_power: exponent } = config.lists, values = part.floats("lists.levels", count(levels));
      expect(bits <= 16 && within(exponent, 0, 4), "lists is wrong");
      const codes = new Bits(part.bytes("lists.weights"), count(bits), count(entries), max(levels, 1));
      this.lists = { pairs: new Pairs(part, "lists", entries, items, items), weight: (number) => values[codes.at(number)], exponent };
    }
    const kinds = { text: TextColumn, number: NumberColumn };
    this.columns = new Map((config.attributes ?? []).map((column, i) => [String(column.name), new kinds[column.kind](part, `attributes.${i}`, column, items)]));
    this.buffer = new Float32Array(items);
    this.examples = new Map();
  }

  readUsers(part, config, items, book) {
    const users = this.numUsers = count(config.users);
    this.users = new Ids(part, "ids.users", config.user_ids, users, "user");
    if ("user_rows" in config) this.userTable = readTable(part, "user_rows", config.user_rows, users, book);
    expect(users <= 8 * part.size && (!this.userTable || this.userTable.width === this.table.width), "users is wrong");
    if ("dislikes" in config) this.dislikes = new Pairs(part, "dislikes", count(config.dislikes), users, items);
    if (!("history" in config)) return;
    this.histories = new Pairs(part, "history", count(config.history), users, items);
    if (!part.has("history.weights")) return;
    const levels = part.floats("history.levels");
    expect(levels.length <= 256 && levels.every((level) => level > 0), "history is wrong");
    const codes = new Bits(part.bytes("history.weights"), bitsFor(levels.length), config.history, levels.length);
    this.weight = (number) => levels[codes.at(number)];
  }

  name(position) { return this.titles ? this.titles.at(position) : String(this.items.at(position)); }

  popularity(position) { return this.counts.at(position); }

  attributes() { return Array.from(this.columns, ([name, column]) => ({ name, ...column.describe() })); }

  history(user) { return this.past(this.user(user)).history.map((item) => this.items.at(item)); }

  // null is not asked for.
  recommend({ user, items, k, excludeSeen, allow, deny, filter, cap, diversity } = {}) {
    k ??= 20;
    diversity ??= 0;
    expect(within(diversity, 0, 1), "Diversity is a number from 0 to 1.");
    const profile = this.profile(user, items), scores = this.scores(profile);
    const masks = Object.entries(filter ?? {}).map(([name, condition]) => {
      const column = this.column(name);
      try { return mask(column, condition); } catch (error) { throw new Error(`The attribute ${short(name)} ${error.message}`); }
    });
    if (allow) {
      masks.push(new Uint8Array(this.numItems));
      for (const item of this.items.positions(allow)) masks.at(-1)[item] = 1;
    }
    for (const inside of masks) inside.forEach((is, item) => { if (!is) scores[item] = -Infinity; });
    const disliked = user == null ? [] : this.dislikes?.row(this.user(user)).items ?? [];
    for (const item of [...this.items.positions(deny), ...(excludeSeen ?? !this.repeats ? profile.history : []), ...disliked]) scores[item] = -Infinity;
    const caps = Object.entries(cap ?? {}).map(([name, most]) => ({ column: this.column(name), most }));
    const chosen = caps.length || diversity ? this.choose(scores, k, diversity, caps) : best(scores, k);
    return chosen.map((item) => this.entry(item, scores[item], profile.known ? null : "popular"));
  }

  // Cosines, shrunk where few users decide.
  similar({ item, k }) {
    const position = this.items.position(item), scores = this.table.scores(this.table.vector(position), this.buffer);
    for (let i = 0; i < scores.length; i++) {
      const users = max(this.counts.at(i), 1);
      scores[i] = fround(scores[i] / fround(this.norm(i) * this.norm(position))) * fround(users / (users + 5));
    }
    scores[position] = -Infinity;
    return best(scores, k ?? 10).map((other) => this.entry(other, scores[other]));
  }

  explain({ user, items, item }) {
    const profile = this.profile(user, items), positions = this.items.positions([item].flat());
    const found = profile.known ? this.reasons(profile, positions)
      : positions.map((at) => ({ item: this.items.at(at), score: this.counts.at(at), neighbours: 0, shared: [], because: [], text: "Popular with everybody." }));
    return Array.isArray(item) ? found : found[0];
  }

  entry(item, score, fallback = null) { return { id: this.items.at(item), score, name: this.name(item), fallback }; }

  column(name) {
    expect(this.columns.has(name), `Items have no attribute ${short(name)}, but ${[...this.columns.keys()].join(", ") || "none"}.`);
    return this.columns.get(name);
  }

  user(id) {
    expect(this.users, "This model stores no users: send the user's items.");
    return this.users.position(id);
  }

  norm(item) {
    this.norms ??= filled(this.numItems, (i) => { const vector = this.table.vector(i); return max(sqrt(dot(vector, vector)), 1e-12); });
    return this.norms[item];
  }

  // Return a user's history, and its weights in units of the mean.
  past(user) {
    if (!this.histories) return { history: [], relative: null };
    const { items: history, first } = this.histories.row(user);
    return { history, relative: this.weight && Float32Array.from(toMean(history.map((_, i) => this.weight(first + i)))) };
  }

  profile(user, ids) {
    const news = this.items.positions(ids), position = user == null ? -1 : this.user(user);
    const past = position < 0 ? { history: [], relative: null } : this.past(position);
    const history = news.length ? [...new Set([...past.history, ...news])].sort((a, b) => a - b) : past.history;
    const counts = past.relative && new Map(past.history.map((item, i) => [item, past.relative[i]]));
    const profile = { history, relative: counts && Float32Array.from(history, (item) => counts.get(item) ?? 1) };
    const half = this.pooling?.half_life;
    if (half && news.length) {
      const last = [...new Set(news.reverse())], most = max(...past.relative ?? [1]), known = 2 ** (-last.length / half) / most;
      const counted = new Map([...past.history.map((item) => [item, known * (counts?.get(item) ?? 1)]), ...last.map((item, i) => [item, 2 ** (-i / half)])]);
      profile.relative = Float32Array.from(toMean(history.map((item) => max(counted.get(item), 1e-5))));
    }
    expect(position < 0 || this.userTable || this.histories, "This model stores no histories: send the user's items.");
    if (position < 0 || !this.userTable) profile.vector = this.solved(profile);
    else {
      const trained = profile.vector = this.userTable.vector(position);
      if (history.length > past.history.length) {
        const after = this.solved(profile), before = this.solved(past), length = sqrt(dot(after, after));
        const factor = past.history.length || !length ? 1 : sqrt(dot(trained, trained)) / length;
        profile.vector = trained.map((value, i) => fround(value + fround(after[i] * fround(factor))) - before[i]);
      }
    }
    profile.known = profile.vector.some(Boolean);
    if (!profile.known) this.eachListed(profile, (_, item, weight) => { profile.known ||= weight !== 0; });
    return profile;
  }

  scores(profile) {
    const scores = this.buffer;
    if (!profile.known) return scores.forEach((_, item) => { scores[item] = this.counts.at(item); }) ?? scores;
    this.table.scores(profile.vector, scores);
    if (this.bias) for (let item = 0; item < scores.length; item++) scores[item] += this.bias[item];
    this.eachListed(profile, (_, item, weight) => { scores[item] += weight; });
    return scores;
  }

  // Visit what the lists of a history add: index in it, item, weight.
  eachListed({ history, relative }, visit) {
    if (!this.lists) return;
    const scale = power(history.length, this.lists.exponent);
    history.forEach((item, index) => {
      const { items, first } = this.lists.pairs.row(item), factor = relative ? relative[index] : 1;
      for (let i = 0; i < items.length; i++) visit(index, items[i], fround(scale * fround(this.lists.weight(first + i) * factor)));
    });
  }

  // Return how much each item counts in a vector, and its scale.
  weights({ history, relative }) {
    const { pooling, foldIn } = this, scale = pooling && power(history.length, pooling.user_power);
    const weights = history.map((item, i) => {
      const users = this.counts.at(item), weight = pooling ? users && power(users, pooling.item_power) : max(users, 1) ** -foldIn.damping;
      return relative ? weight * relative[i] : weight;
    });
    return pooling ? [weights, scale] : [toMean(weights), foldIn.scale];
  }

  // Return unobserved · VᵀV + Σ_j w_j v_j v_jᵀ + ridge · mean(diag VᵀV) · I.
  system(history, weights) {
    const { table, foldIn } = this, size = table.width ** 2;
    if (!this.whole) {
      const gram = new Float64Array(size), row = new Float32Array(table.width);
      for (let item = 0; item < table.length; item++) addProduct(gram, table.vector(item, row), 1);
      const trace = gram.reduce((sum, value, i) => (i % (table.width + 1) ? sum : sum + value), 0);
      const ridge = max(foldIn.ridge, 1e-9) * (trace / table.width || 1);
      this.whole = gram.map((value, i) => foldIn.unobserved * value + (i % (table.width + 1) ? 0 : ridge));
    }
    const system = this.whole.slice();
    history.forEach((item, i) => addProduct(system, table.vector(item), weights[i]));
    return system;
  }

  // Sum up a history's vectors, or solve for the user as ALS does.
  solved(profile) {
    const { table, pooling } = this, { history, relative } = profile, [weights, scale] = this.weights(pooling ? { history } : profile);
    const sum = pooling ? new Float32Array(table.width) : new Float64Array(table.width), row = new Float32Array(table.width);
    history.forEach((item, i) => {
      table.vector(item, row);
      for (let j = 0; j < row.length; j++) sum[j] += pooling ? fround(fround(row[j] * weights[i]) * (relative ? relative[i] : 1)) : row[j] * weights[i];
    });
    return Float32Array.from(pooling || !history.length ? sum : solve(this.system(history, weights), [sum])[0], (value) => value * scale);
  }

  choose(scores, k, diversity, caps) {
    for (let room = 10 * k; ; room *= 10) {
      const pool = best(scores, room), chosen = this.diverse(pool, pool.map((item) => scores[item]), k, diversity, caps);
      if (chosen.length >= k || pool.length < room) return chosen;
    }
  }

  // Maximal marginal relevance within caps.
  diverse(pool, scores, k, diversity, caps) {
    const lowest = scores.at(-1), span = fround(scores[0] - lowest), chosen = [], left = new Set(pool.keys()), taken = caps.map(() => new Map());
    const relevance = scores.map((score) => fround((1 - diversity) * (span > 0 ? fround(fround(score - lowest) / span) : 1)));
    const units = pool.map((item) => (diversity ? this.table.vector(item).map((value) => value / this.norm(item)) : []));
    const alike = new Float32Array(pool.length).fill(-1);
    while (chosen.length < k && left.size) {
      const value = (i) => fround(relevance[i] - fround(diversity * alike[i]));
      let next = -1;
      for (const i of left) {
        if (next < 0 || value(i) > value(next)) next = i;
        if (!diversity) break;
      }
      left.delete(next);
      const keys = caps.map(({ column }) => column.keys(pool[next])), had = (i, key) => taken[i].get(key) ?? 0;
      if (caps.some(({ most }, i) => keys[i].some((key) => had(i, key) >= most))) continue;
      keys.forEach((some, i) => some.forEach((key) => taken[i].set(key, had(i, key) + 1)));
      chosen.push(pool[next]);
      units.forEach((unit, i) => { alike[i] = max(alike[i], dot(unit, units[next])); });
    }
    return chosen;
  }

  // Return what each item of the history adds to scores.
  reasons(profile, positions) {
    const { vector, history } = profile, { table, bias, pooling } = this, [weights, scale] = this.weights(profile);
    const vectors = positions.map((item) => table.vector(item)), rows = history.map((item) => table.vector(item));
    const turned = pooling || !history.length ? vectors : solve(this.system(history, weights), vectors), near = vectors.map(() => new Float32Array(history.length));
    this.eachListed(profile, (index, item, weight) => positions.forEach((position, p) => { if (position === item) near[p][index] = weight; }));
    return positions.map((item, p) => {
      const parts = filled(history.length, (i) => fround(scale * weights[i] * dot(turned[p], rows[i])) + near[p][i]), neighbours = sum32(near[p]);
      const because = (values) => order(values).slice(0, 4).filter((i) => values[i] > 0 && history[i] !== item).slice(0, 3).map((i) => this.entry(history[i], values[i]));
      const shared = this.shared(vector, item), score = fround(fround(dot(vectors[p], vector)) + (bias ? bias[item] : 0)) + neighbours;
      const text = 2 * neighbours > sum32(parts) ? sentence("Popular with people who have", because(near[p]), shared) : sentence("Because you have", because(parts), shared);
      return { item: this.items.at(item), score, neighbours, shared, because: because(parts), text };
    });
  }

  shared(vector, item) {
    const { table } = this, terms = [];
    table.code?.(item, (weight, meta) => terms.push([weight, meta, fround(weight * fround(dot(vector, table.book, meta * table.width)))]));
    return order(terms.map((term) => term[2])).slice(0, 3).map((i) => terms[i]).filter((term) => term[2] > 0).map(([weight, meta, contribution]) => {
      const key = weight < 0 ? -1 - meta : meta;
      if (!this.examples.has(key)) this.examples.set(key, this.examplesOf(meta, weight < 0 ? -1 : 1));
      return { meta, contribution, examples: this.examples.get(key) };
    });
  }

  // Return well-known items that lean on a meta-embedding.
  examplesOf(meta, sign) {
    const { table } = this, row = table.book.subarray(meta * table.width, (meta + 1) * table.width), found = [], ranks = [];
    for (let at = 0; at < table.weights.values.length; at++) {
      if (table.columns.at(at) !== meta) continue;
      const item = floor(at / table.terms), weight = table.weights.vector(item)[at % table.terms] * sign;
      const share = fround(weight / this.norm(item)) * fround(sqrt(dot(row, row)));
      if (share <= 0.3) continue;
      found.push(this.entry(item, weight));
      ranks.push(share * this.counts.at(item));
    }
    return order(ranks).slice(0, 4).map((i) => found[i]);
  }
}
