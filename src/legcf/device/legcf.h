/* SPDX-License-Identifier: Apache-2.0
 *
 * legcf.h - recommend from a .legcf model file in C99: one header, no malloc, the file is read where it lies.
 *
 *     static legcf_model model;                     a few kilobytes
 *     legcf_status s = legcf_open(&model, bytes, size);
 *     void *work = ...;                             legcf_work_bytes(&model) bytes, aligned like a double
 *     s = legcf_prepare(&model, work);
 *     legcf_request ask = {0};
 *     ask.items = items; ask.count = n;             positions, ascending, each once (legcf_sort does that)
 *     long k = legcf_recommend(&model, &ask, 20, best, scores);
 *
 * RAM beyond the file: legcf_work_bytes() is 4 bytes an item for its score, 4 bytes a meta-embedding (or 256 bytes for
 * every byte of a row of a table in 1, 2 or 4 bits), a few vectors, and 1/64 of the bytes of item lists and histories.
 * A model whose users are solved and not summed up takes 16 bytes times its width squared in addition.
 *
 * Nothing in the file is trusted: legcf_open checks the checksum, every size and every number that is read later.
 * It reads what scores need: codes, tables of 1 to 8 bits, float tables, item lists, bias, pooling, fold-in, ids, titles,
 * histories and their weights. Attributes and the maps from features are passed over; `hidden` carries rules of the caller.
 * Define LEGCF_NO_CHECKSUM to leave SHA-256 out (where the file lies in memory that was checked before).
 */
#ifndef LEGCF_H
#define LEGCF_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* products are rounded before they are added, as in every reader; gcc does so with -std=c99 */
#endif

typedef enum {
    LEGCF_OK = 0,
    LEGCF_FOREIGN = -1,  /* not a legcf model file */
    LEGCF_VERSION = -2,  /* of another format version */
    LEGCF_DAMAGED = -3,  /* cut short, checksum, sizes or numbers that cannot be */
    LEGCF_REQUEST = -4,  /* positions that are out of range or not ascending */
    LEGCF_NO_HISTORY = -5 /* the file stores no histories */
} legcf_status;

#define LEGCF_FORMAT_VERSION "2"
#define LEGCF_MOST_HEADER (1ul << 20) /* bytes; headers have a few kilobytes */
#define LEGCF_MOST_WIDTH 2048u
#define LEGCF_BLOCK 256u /* bytes of sorted keys between two counts in memory */
#define LEGCF_GLANCE 64u /* scores that are compared with the least of the best at once */
#define LEGCF_LARGEST 1e6 /* numbers of a file, so that no sum of products overflows */

typedef struct { const uint8_t *at; uint64_t size; } legcf_bytes;

typedef struct { /* rows of numbers: int8 with a scale per row, float16 or float32 */
    legcf_bytes values, scale;
    uint32_t rows, columns;
    int type; /* bytes of a number */
    float factors[256];
} legcf_matrix;

typedef struct { /* sorted keys in the Elias-Fano form */
    legcf_bytes low, high;
    uint64_t count, universe;
    uint32_t low_bits;
    uint32_t *ones; /* set bits before every block, in the work memory */
} legcf_keys;

typedef struct { int kind; int type; int64_t first; legcf_bytes values, lengths; uint32_t count; } legcf_ids;

typedef struct {
    uint32_t num_items, num_users, width;
    int table; /* 'c' codes, 'p' a table in few bits, 'f' a table */
    legcf_matrix codebook, rows;
    legcf_bytes columns, packed;
    uint32_t column_bits, table_bits;
    legcf_bytes popularity, bias;
    uint32_t popularity_bits;
    int bias_type, has_lists, has_history, has_dislikes, is_pooled, has_titles;
    int repeats; /* whether users take again what they have: the usual keep_seen of a request */
    legcf_keys lists, histories, dislikes;
    legcf_bytes list_codes, list_levels, history_codes, history_levels;
    uint32_t list_bits, history_bits;
    double list_power, user_power, item_power;
    double half_life; /* in items, where later ones count more (`relative` of a request is the caller's to fill); or 0 */
    double unobserved, ridge, damping, scale;
    legcf_ids items, users, titles;
    double *gram, *system, *rhs, *steps;
    float *scores, *projected, *vector, *row;
} legcf_model;

typedef struct {
    const uint32_t *items;  /* what somebody has: positions, ascending */
    const float *relative;  /* how much each counts, mean 1; NULL: alike */
    uint32_t count;
    const uint8_t *hidden;  /* bit i set: item i is not recommended; NULL: none is hidden */
    int keep_seen;          /* recommend what somebody has, too */
} legcf_request;

/* ---- the file's header: JSON, read without memory --------------------------------------------------------------- */

typedef struct { const uint8_t *at, *end; int escaped; } legcf_json;

static int legcf__get(legcf_json *j) { /* the next character, -1 at the end; inside a JSON string its escapes are undone */
    int c, i;
    if (j->at >= j->end) return -1;
    c = *j->at++;
    if (!j->escaped) return c;
    if (c == '"') { j->at = j->end; return -1; }
    if (c != '\\') return c;
    if (j->at >= j->end) return -1;
    c = *j->at++;
    if (c == 'n' || c == 't' || c == 'r' || c == 'b' || c == 'f') return ' ';
    if (c != 'u') return c;
    for (i = 0; i < 4 && j->at < j->end; i++) j->at++;
    return '?';
}

static int legcf__peek(legcf_json *j) {
    legcf_json copy;
    int c;
    do { copy = *j; c = legcf__get(j); } while (c == ' ' || c == '\n' || c == '\t' || c == '\r');
    *j = copy;
    return c;
}

static int legcf__expect(legcf_json *j, int c) { return legcf__peek(j) == c && legcf__get(j) == c; }

static int legcf__text(legcf_json *j, const char *text, int *same) { /* pass a string; whether it is `text` */
    int c, equal = 1;
    if (!legcf__expect(j, '"')) return 0;
    while ((c = legcf__get(j)) != '"') {
        if (c < 0) return 0;
        if (c == '\\') { equal = 0; if (legcf__get(j) < 0) return 0; continue; }
        if (equal && *text && c == (unsigned char)*text) text++; else equal = 0;
    }
    if (same) *same = equal && !*text;
    return 1;
}

static int legcf__pass(legcf_json *j) { /* pass one value of any kind */
    unsigned depth = 0;
    for (;;) {
        int c = legcf__peek(j);
        if (c < 0) return 0;
        if (c == '"') { if (!legcf__text(j, "", NULL)) return 0; }
        else if (c == '{' || c == '[') { legcf__get(j); depth++; continue; }
        else if (c == '}' || c == ']') { if (!depth) return 0; legcf__get(j); depth--; }
        else if (c == ',' || c == ':') { if (!depth) return 0; legcf__get(j); continue; }
        else while (c >= 0 && c != ',' && c != '}' && c != ']' && c != ':' && c != ' ') { legcf__get(j); c = legcf__peek(j); }
        if (!depth) return 1;
    }
}

static int legcf__member(legcf_json object, const char *key, legcf_json *value) { /* the value of a key of an object */
    int same;
    if (!legcf__expect(&object, '{') || legcf__peek(&object) == '}') return 0;
    for (;;) {
        if (!legcf__text(&object, key, &same) || !legcf__expect(&object, ':')) return 0;
        legcf__peek(&object);
        if (same) { *value = object; return 1; }
        if (!legcf__pass(&object) || !legcf__expect(&object, ',')) return 0;
    }
}

static int legcf__number(legcf_json j, double *out) {
    double sign = 1, value = 0;
    int c = legcf__peek(&j), digits = 0, scale = 0, power = 0, down = 0;
    if (c == '-') { sign = -1; legcf__get(&j); c = legcf__peek(&j); }
    for (; (c >= '0' && c <= '9') || (c == '.' && !scale); c = legcf__peek(&j)) {
        legcf__get(&j);
        if (c == '.') { scale = 1; continue; }
        if (++digits > 400) return 0;
        value = value * 10 + (c - '0');
        if (scale) down++;
    }
    if (c == 'e' || c == 'E') {
        int minus = 0;
        legcf__get(&j);
        c = legcf__peek(&j);
        if (c == '-' || c == '+') { minus = c == '-'; legcf__get(&j); c = legcf__peek(&j); }
        for (; c >= '0' && c <= '9'; c = legcf__peek(&j)) { legcf__get(&j); if (power < 10000) power = power * 10 + (c - '0'); }
        if (minus) power = -power;
    }
    if (!digits) return 0;
    *out = sign * (down ? value / pow(10, down) : value) * (power ? pow(10, power) : 1);
    return *out >= -1e300 && *out <= 1e300;
}

static int legcf__count(legcf_json j, uint64_t *out) { /* a whole number below 2^40 */
    uint64_t value = 0;
    int c = legcf__peek(&j), digits = 0;
    for (; c >= '0' && c <= '9'; c = legcf__peek(&j)) {
        legcf__get(&j);
        value = value * 10 + (uint64_t)(c - '0');
        digits++;
        if (value >= (uint64_t)1 << 40) return 0;
    }
    *out = value;
    return digits > 0 && c != '.' && c != 'e' && c != 'E' && c != '-' && c != '+';
}

static int legcf__count_of(legcf_json object, const char *key, uint64_t *out) {
    legcf_json value;
    return legcf__member(object, key, &value) && legcf__count(value, out);
}

static int legcf__number_of(legcf_json object, const char *key, double low, double high, double *out) {
    legcf_json value;
    return legcf__member(object, key, &value) && legcf__number(value, out) && *out >= low && *out <= high;
}

static int legcf__is(legcf_json object, const char *key, const char *text) {
    legcf_json value;
    int same;
    return legcf__member(object, key, &value) && legcf__text(&value, text, &same) && same;
}

/* ---- arrays of the file ------------------------------------------------------------------------------------------ */

typedef struct { const uint8_t *data; uint64_t size; legcf_json header; } legcf_source;
typedef struct { legcf_bytes bytes; int type, dimensions; uint64_t shape[2]; } legcf_array;

enum { LEGCF_U8 = 1, LEGCF_I8, LEGCF_U16, LEGCF_I16, LEGCF_U32, LEGCF_I32, LEGCF_U64, LEGCF_I64, LEGCF_F16, LEGCF_F32, LEGCF_F64 };

static int legcf__type(legcf_json entry, unsigned *bytes) {
    static const char *const names[] = {"U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64"};
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};
    int i;
    for (i = 0; i < 11; i++)
        if (legcf__is(entry, "dtype", names[i])) { *bytes = sizes[i]; return i + 1; }
    return 0;
}

static int legcf__entry(legcf_json entry, uint64_t data_size, uint64_t *start, uint64_t *end, legcf_array *out) {
    legcf_json j;
    unsigned bytes = 0;
    uint64_t total, size;
    out->type = legcf__type(entry, &bytes);
    if (!out->type || !legcf__member(entry, "data_offsets", &j) || !legcf__expect(&j, '[')) return 0;
    if (!legcf__count(j, start) || !legcf__pass(&j) || !legcf__expect(&j, ',')) return 0;
    if (!legcf__count(j, end) || !legcf__pass(&j) || !legcf__expect(&j, ']')) return 0;
    if (*start > *end || *end > data_size || !legcf__member(entry, "shape", &j) || !legcf__expect(&j, '[')) return 0;
    total = bytes;
    out->dimensions = 0;
    out->shape[0] = out->shape[1] = 1;
    if (legcf__peek(&j) != ']')
        for (;;) {
            if (out->dimensions == 2 || !legcf__count(j, &size) || !legcf__pass(&j) || size > data_size) return 0;
            out->shape[out->dimensions++] = size;
            if (size && total > data_size / size) return 0;
            total *= size;
            if (legcf__expect(&j, ']')) break;
            if (!legcf__expect(&j, ',')) return 0;
        }
    return total == *end - *start;
}

static int legcf__layout(const legcf_source *s) { /* arrays lie back to back, in the order of the header */
    legcf_json j = s->header;
    uint64_t position = 0, start, end;
    legcf_array array;
    int is_metadata;
    if (!legcf__expect(&j, '{')) return 0;
    for (;;) {
        if (!legcf__text(&j, "__metadata__", &is_metadata) || !legcf__expect(&j, ':')) return 0;
        legcf__peek(&j);
        if (!is_metadata) {
            if (!legcf__entry(j, s->size, &start, &end, &array) || start != position) return 0;
            position = end;
        }
        if (!legcf__pass(&j)) return 0;
        if (legcf__expect(&j, '}')) break;
        if (!legcf__expect(&j, ',')) return 0;
    }
    return position == s->size && legcf__peek(&j) < 0;
}

static int legcf__array(const legcf_source *s, const char *name, legcf_array *out) {
    legcf_json entry;
    uint64_t start, end;
    if (!legcf__member(s->header, name, &entry) || !legcf__entry(entry, s->size, &start, &end, out)) return 0;
    out->bytes.at = s->data + start;
    out->bytes.size = end - start;
    return 1;
}

static int legcf__named(const legcf_source *s, const char *name, const char *part, legcf_array *out) {
    char full[40];
    size_t a = strlen(name), b = strlen(part);
    if (a + b >= sizeof full) return 0;
    memcpy(full, name, a);
    memcpy(full + a, part, b + 1);
    return legcf__array(s, full, out);
}

static int legcf__vector(const legcf_source *s, const char *name, const char *part, int type, legcf_bytes *out) {
    legcf_array array;
    if (!legcf__named(s, name, part, &array) || array.type != type || array.dimensions != 1) return 0;
    *out = array.bytes;
    return 1;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t legcf__little(const uint8_t *at, unsigned bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | at[bytes];
    return value;
}

static float legcf__float(const uint8_t *at) {
    uint32_t bits = (uint32_t)legcf__little(at, 4);
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static float legcf__half(const uint8_t *at) {
    uint32_t bits = (uint32_t)legcf__little(at, 2), sign = (bits & 0x8000u) << 16, power = bits >> 10 & 31, low = bits & 1023;
    float value;
    if (!power) { value = (float)low * 5.9604644775390625e-8f; return sign ? -value : value; }
    bits = power == 31 ? sign | 0x7f800000u | low << 13 : sign | (power + 112) << 23 | low << 13;
    memcpy(&value, &bits, 4);
    return value;
}

static unsigned legcf__bits_for(uint64_t count) {
    unsigned bits = 0;
    for (count = count ? count - 1 : 0; count; count >>= 1) bits++;
    return bits ? bits : 1;
}

static uint64_t legcf__word(const uint8_t *p) { /* eight bytes; compilers make one load of it */
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32
         | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static uint64_t legcf__bits(legcf_bytes packed, uint64_t number, unsigned bits) { /* value `number` of packed values, up to 56 bits */
    uint64_t position = number * bits, byte = position >> 3, word;
    if (byte + 8 <= packed.size) word = legcf__word(packed.at + byte);
    else word = legcf__little(packed.at + byte, byte < packed.size ? (unsigned)(packed.size - byte) : 0);
    return word >> (position & 7) & (((uint64_t)1 << bits) - 1);
}

static int legcf__has_bits(legcf_bytes packed, uint64_t count, unsigned bits) {
    return bits >= 1 && bits <= 56 && count < (uint64_t)1 << 48 && packed.size == (count * bits + 7) / 8;
}

static void legcf__factors(float *factors, double top) {
    int i;
    for (i = 0; i < 256; i++) factors[i] = (float)(top * pow(1.03, -i));
}

static int legcf__matrix(const legcf_source *s, const char *name, legcf_json config, legcf_matrix *out) {
    legcf_json shape;
    legcf_array array;
    uint64_t rows, columns, i;
    double top;
    if (!legcf__member(config, "shape", &shape) || !legcf__expect(&shape, '[') || !legcf__count(shape, &rows)) return 0;
    if (!legcf__pass(&shape) || !legcf__expect(&shape, ',') || !legcf__count(shape, &columns) || !rows || !columns) return 0;
    if (!legcf__named(s, name, ".values", &array) || array.dimensions != 2 || array.shape[0] != rows || array.shape[1] != columns) return 0;
    if (rows >= (uint64_t)1 << 31 || columns > LEGCF_MOST_WIDTH) return 0;
    out->values = array.bytes;
    out->rows = (uint32_t)rows;
    out->columns = (uint32_t)columns;
    if (legcf__member(config, "top", &shape)) {
        if (!legcf__number(shape, &top) || !(top > 0 && top <= LEGCF_LARGEST / 127) || array.type != LEGCF_I8) return 0;
        if (!legcf__vector(s, name, ".scale", LEGCF_U8, &out->scale) || out->scale.size != rows) return 0;
        legcf__factors(out->factors, top);
        out->type = 1;
        return 1;
    }
    if (array.type != LEGCF_F16 && array.type != LEGCF_F32) return 0;
    out->type = array.type == LEGCF_F16 ? 2 : 4;
    for (i = 0; i < rows * columns; i++) {
        float value = out->type == 2 ? legcf__half(array.bytes.at + 2 * i) : legcf__float(array.bytes.at + 4 * i);
        if (!(value >= -LEGCF_LARGEST && value <= LEGCF_LARGEST)) return 0;
    }
    return 1;
}

static float legcf__value(const legcf_matrix *m, uint32_t row, uint32_t column) {
    uint64_t at = (uint64_t)row * m->columns + column;
    if (m->type == 1) return (float)(int8_t)m->values.at[at] * m->factors[m->scale.at[row]];
    return m->type == 2 ? legcf__half(m->values.at + 2 * at) : legcf__float(m->values.at + 4 * at);
}

/* ---- sorted keys ------------------------------------------------------------------------------------------------- */

typedef struct { uint64_t bit, number, high; } legcf_walk;

static unsigned legcf__ones(unsigned byte) {
    byte = byte - (byte >> 1 & 0x55);
    byte = (byte & 0x33) + (byte >> 2 & 0x33);
    return (byte + (byte >> 4)) & 15;
}

static int legcf__next(const legcf_keys *k, legcf_walk *w, uint64_t *key) { /* the next key; 0 at the end */
    uint64_t bits = k->high.size * 8;
    while (w->bit < bits) {
        unsigned byte = k->high.at[w->bit >> 3] >> (w->bit & 7);
        if (!byte) { unsigned left = 8 - (unsigned)(w->bit & 7); w->bit += left; w->high += left; continue; }
        while (!(byte & 1)) { byte >>= 1; w->bit++; w->high++; }
        *key = w->high << k->low_bits | (k->low_bits ? legcf__bits(k->low, w->number, k->low_bits) : 0);
        w->bit++;
        w->number++;
        return 1;
    }
    return 0;
}

static int legcf__keys(const legcf_source *s, const char *name, uint64_t count, uint64_t universe, legcf_keys *out) {
    legcf_walk walk = {0, 0, 0};
    uint64_t key = 0, last = 0, per = universe / (count ? count : 1);
    if (!legcf__vector(s, name, ".low", LEGCF_U8, &out->low) || !legcf__vector(s, name, ".high", LEGCF_U8, &out->high)) return 0;
    for (out->low_bits = 0; per > 1; per >>= 1) out->low_bits++;
    out->count = count;
    out->universe = universe;
    if (count > 8 * out->high.size || out->high.size != (count + (universe >> out->low_bits) + 1 + 7) / 8) return 0;
    if (out->low_bits ? !legcf__has_bits(out->low, count, out->low_bits) : out->low.size != 0) return 0;
    while (walk.number <= count && legcf__next(out, &walk, &key)) {
        if (walk.number > count || key >= universe || (walk.number > 1 && key <= last)) return 0;
        last = key;
    }
    return walk.number == count;
}

static uint64_t legcf__blocks(const legcf_keys *k) { return (k->high.size + LEGCF_BLOCK - 1) / LEGCF_BLOCK; }

static void legcf__index(legcf_keys *k, uint32_t *ones) {
    uint64_t i, total = 0;
    k->ones = ones;
    for (i = 0; i < k->high.size; i++) {
        if (i % LEGCF_BLOCK == 0) ones[i / LEGCF_BLOCK] = (uint32_t)total;
        total += legcf__ones(k->high.at[i]);
    }
}

static legcf_walk legcf__seek(const legcf_keys *k, uint64_t key) { /* before the first key that is not below `key` */
    uint64_t high = key >> k->low_bits, first = 0, last = legcf__blocks(k), byte, zeros, other;
    legcf_walk walk = {0, 0, 0}, before;
    while (first + 1 < last) { /* the last block before which there are at most `high` zeros */
        uint64_t middle = (first + last) / 2;
        if (middle * LEGCF_BLOCK * 8 - k->ones[middle] < high) first = middle; else last = middle;
    }
    if (!k->high.size) return walk;
    byte = first * LEGCF_BLOCK;
    zeros = byte * 8 - k->ones[first];
    while (byte < k->high.size && zeros + 8 - legcf__ones(k->high.at[byte]) < high) zeros += 8 - legcf__ones(k->high.at[byte++]);
    walk.bit = byte * 8;
    walk.high = zeros;
    walk.number = walk.bit - zeros;
    do before = walk; while (legcf__next(k, &walk, &other) && other < key);
    return before;
}

/* ---- ids and texts ----------------------------------------------------------------------------------------------- */

static unsigned legcf__unsigned(int type) { return type == LEGCF_U8 ? 1 : type == LEGCF_U16 ? 2 : type == LEGCF_U32 ? 4 : type == LEGCF_U64 ? 8 : 0; }

static unsigned legcf__integer(int type) {
    unsigned bytes = legcf__unsigned(type);
    return bytes ? bytes : type == LEGCF_I8 ? 1 : type == LEGCF_I16 ? 2 : type == LEGCF_I32 ? 4 : type == LEGCF_I64 ? 8 : 0;
}

static int legcf__is_text(const uint8_t *at, uint64_t size) { /* UTF-8; halves of surrogate pairs may stand alone */
    uint64_t i = 0;
    while (i < size) {
        unsigned c = at[i++], more = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : c >> 3 == 30 ? 3 : 4;
        uint32_t code = more == 1 ? c & 31 : more == 2 ? c & 15 : c & 7;
        unsigned n = more;
        if (more == 4 || more > size - i) return 0;
        for (; n; n--, i++) { if (at[i] >> 6 != 2) return 0; code = code << 6 | (at[i] & 63u); }
        if ((more == 1 && code < 0x80) || (more == 2 && code < 0x800) || (more == 3 && (code < 0x10000 || code > 0x10ffff))) return 0;
    }
    return 1;
}

static int legcf__texts(const legcf_source *s, const char *name, uint32_t count, legcf_ids *out) {
    legcf_array array;
    uint64_t total = 0, i, length;
    unsigned bytes;
    if (!legcf__vector(s, name, ".text", LEGCF_U8, &out->values) || !legcf__named(s, name, ".lengths", &array)) return 0;
    bytes = legcf__unsigned(array.type);
    if (!bytes || array.dimensions != 1 || array.shape[0] != count) return 0;
    for (i = 0; i < count; i++) {
        length = legcf__little(array.bytes.at + i * bytes, bytes);
        if (length > out->values.size - total || !legcf__is_text(out->values.at + total, length)) return 0;
        total += length;
    }
    out->kind = 't';
    out->type = (int)bytes;
    out->lengths = array.bytes;
    out->count = count;
    return total == out->values.size;
}

static int legcf__ids(const legcf_source *s, const char *name, legcf_json config, uint32_t count, legcf_ids *out) {
    legcf_array array;
    legcf_json first;
    double value;
    out->count = count;
    if (legcf__is(config, "kind", "text")) return legcf__texts(s, name, count, out);
    if (legcf__is(config, "kind", "range")) {
        int c, minus;
        uint64_t number = 0;
        if (!legcf__member(config, "first", &first) || !legcf__number(first, &value) || !(value > -4.6e18 && value < 4.6e18)) return 0;
        minus = legcf__expect(&first, '-');
        for (c = legcf__peek(&first); c >= '0' && c <= '9'; c = legcf__peek(&first)) { number = number * 10 + (uint64_t)(c - '0'); legcf__get(&first); }
        if (c == '.' || c == 'e' || c == 'E') return 0;
        out->kind = 'r';
        out->first = minus ? -(int64_t)number : (int64_t)number;
        return 1;
    }
    if (!legcf__named(s, name, ".values", &array) || array.dimensions != 1 || array.shape[0] != count) return 0;
    out->kind = 'i';
    out->type = array.type;
    out->values = array.bytes;
    return legcf__integer(array.type) != 0;
}

static int legcf__number_text(char *to, uint64_t value, int minus) { /* digits of a number; returns how many */
    char digits[24];
    int n = 0, i;
    do digits[n++] = (char)('0' + value % 10); while (value /= 10);
    if (minus) digits[n++] = '-';
    for (i = 0; i < n; i++) to[i] = digits[n - 1 - i];
    return n;
}

/* Copy the id (or title) at `position` into `to`, ended by 0 and cut to `size`; returns its length in bytes. */
static size_t legcf__id(const legcf_ids *ids, uint32_t position, char *to, size_t size) {
    char digits[24];
    const char *from = digits;
    size_t length = 0;
    if (position < ids->count && ids->kind == 't') {
        uint64_t start = 0, i;
        for (i = 0; i < position; i++) start += legcf__little(ids->lengths.at + i * (unsigned)ids->type, (unsigned)ids->type);
        length = (size_t)legcf__little(ids->lengths.at + (uint64_t)position * (unsigned)ids->type, (unsigned)ids->type);
        from = (const char *)ids->values.at + start;
    } else if (position < ids->count) {
        unsigned bytes = ids->kind == 'r' ? 8 : legcf__integer(ids->type);
        uint64_t value = ids->kind == 'r' ? (uint64_t)(ids->first + (int64_t)position) : legcf__little(ids->values.at + (uint64_t)position * bytes, bytes);
        int is_signed = ids->kind == 'r' || !legcf__unsigned(ids->type), minus;
        if (is_signed && bytes < 8 && value >> (bytes * 8 - 1)) value |= ~(uint64_t)0 << (bytes * 8);
        minus = is_signed && value >> 63;
        length = (size_t)legcf__number_text(digits, minus ? 0 - value : value, minus);
    }
    if (size) {
        size_t kept = length < size ? length : size - 1;
        if (kept) memcpy(to, from, kept);
        to[kept] = 0;
    }
    return length;
}

static long legcf__find(const legcf_ids *ids, const char *text) {
    size_t length = strlen(text);
    uint32_t i;
    if (ids->kind == 't') {
        uint64_t start = 0, own;
        for (i = 0; i < ids->count; i++, start += own) {
            own = legcf__little(ids->lengths.at + (uint64_t)i * (unsigned)ids->type, (unsigned)ids->type);
            if (own == length && (!length || !memcmp(ids->values.at + start, text, length))) return (long)i;
        }
        return -1;
    }
    for (i = 0; i < ids->count && length && length < 24; i++) {
        char own[24];
        if (legcf__id(ids, i, own, sizeof own) == length && !memcmp(own, text, length)) return (long)i;
    }
    return -1;
}

/* ---- SHA-256 ----------------------------------------------------------------------------------------------------- */

#ifndef LEGCF_NO_CHECKSUM
typedef struct { uint32_t state[8]; uint8_t block[64]; uint64_t size; } legcf_sha;

static void legcf__sha_block(legcf_sha *h) {
    static const uint32_t k[64] = {
        0x428a2f98u,0x71374491u,0xb5c0fbcfu,0xe9b5dba5u,0x3956c25bu,0x59f111f1u,0x923f82a4u,0xab1c5ed5u,0xd807aa98u,0x12835b01u,
        0x243185beu,0x550c7dc3u,0x72be5d74u,0x80deb1feu,0x9bdc06a7u,0xc19bf174u,0xe49b69c1u,0xefbe4786u,0x0fc19dc6u,0x240ca1ccu,
        0x2de92c6fu,0x4a7484aau,0x5cb0a9dcu,0x76f988dau,0x983e5152u,0xa831c66du,0xb00327c8u,0xbf597fc7u,0xc6e00bf3u,0xd5a79147u,
        0x06ca6351u,0x14292967u,0x27b70a85u,0x2e1b2138u,0x4d2c6dfcu,0x53380d13u,0x650a7354u,0x766a0abbu,0x81c2c92eu,0x92722c85u,
        0xa2bfe8a1u,0xa81a664bu,0xc24b8b70u,0xc76c51a3u,0xd192e819u,0xd6990624u,0xf40e3585u,0x106aa070u,0x19a4c116u,0x1e376c08u,
        0x2748774cu,0x34b0bcb5u,0x391c0cb3u,0x4ed8aa4au,0x5b9cca4fu,0x682e6ff3u,0x748f82eeu,0x78a5636fu,0x84c87814u,0x8cc70208u,
        0x90befffau,0xa4506cebu,0xbef9a3f7u,0xc67178f2u};
    uint32_t w[64], s[8], a, b;
    int i;
#define LEGCF_TURN(x, n) ((x) >> (n) | (x) << (32 - (n)))
    for (i = 0; i < 16; i++) w[i] = (uint32_t)h->block[4 * i] << 24 | (uint32_t)h->block[4 * i + 1] << 16 | (uint32_t)h->block[4 * i + 2] << 8 | h->block[4 * i + 3];
    for (; i < 64; i++) {
        a = LEGCF_TURN(w[i - 15], 7) ^ LEGCF_TURN(w[i - 15], 18) ^ w[i - 15] >> 3;
        b = LEGCF_TURN(w[i - 2], 17) ^ LEGCF_TURN(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, h->state, sizeof s);
    for (i = 0; i < 64; i++) {
        a = s[7] + (LEGCF_TURN(s[4], 6) ^ LEGCF_TURN(s[4], 11) ^ LEGCF_TURN(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        b = (LEGCF_TURN(s[0], 2) ^ LEGCF_TURN(s[0], 13) ^ LEGCF_TURN(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += a;
        s[0] = a + b;
    }
    for (i = 0; i < 8; i++) h->state[i] += s[i];
#undef LEGCF_TURN
}

static void legcf__sha_add(legcf_sha *h, const uint8_t *at, uint64_t size) {
    while (size) {
        size_t fill = (size_t)(h->size % 64), part = 64 - fill < size ? 64 - fill : (size_t)size;
        memcpy(h->block + fill, at, part);
        h->size += part;
        at += part;
        size -= part;
        if (h->size % 64 == 0) legcf__sha_block(h);
    }
}

static int legcf__sha_is(legcf_sha *h, const uint8_t *hex) {
    uint64_t bits = h->size * 8;
    uint8_t one = 0x80, zero = 0, size[8];
    int i;
    legcf__sha_add(h, &one, 1);
    while (h->size % 64 != 56) legcf__sha_add(h, &zero, 1);
    for (i = 0; i < 8; i++) size[i] = (uint8_t)(bits >> (56 - 8 * i));
    legcf__sha_add(h, size, 8);
    for (i = 0; i < 64; i++)
        if (hex[i] != (uint8_t)"0123456789abcdef"[h->state[i / 8] >> (28 - i % 8 * 4) & 15]) return 0;
    return 1;
}

static int legcf__checksum(const uint8_t *file, uint64_t size, uint64_t header) { /* of the file with its own digits as zeros */
    static const char field[] = "\"checksum\":\"";
    legcf_sha h = {{0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u}, {0}, 0};
    uint64_t i, end = 8 + header;
    uint8_t zeros[64];
    memset(zeros, '0', sizeof zeros);
    for (i = 8; i + 12 + 65 <= end; i++)
        if (file[i] == '"' && !memcmp(file + i, field, 12) && file[i + 12 + 64] == '"') {
            legcf__sha_add(&h, file, i + 12);
            legcf__sha_add(&h, zeros, 64);
            legcf__sha_add(&h, file + i + 12 + 64, size - (i + 12 + 64));
            return legcf__sha_is(&h, file + i + 12);
        }
    return 0;
}
#endif

/* ---- the model --------------------------------------------------------------------------------------------------- */

static const double legcf__spans[9] = {0, 1.6, 2.0, 2.5, 2.6, 3.1, 3.6, 0, 4.5}; /* root mean squares that steps reach, by bits */

static float legcf__level(uint32_t value, uint32_t bits) { /* what a value of a table in few bits stands for, in units of its row's scale */
    double half = (double)(1u << bits) / 2;
    return (float)((value + 0.5 - half) * (legcf__spans[bits] / half));
}

static float legcf__step(uint32_t bits) { return legcf__level(1, bits) - legcf__level(0, bits); }

static int legcf__table(const legcf_source *s, legcf_json config, legcf_model *m) {
    legcf_json rows, part, shape;
    uint64_t count, width, i;
    double top;
    if (!legcf__member(config, "item_rows", &rows)) return 0;
    if (legcf__is(rows, "kind", "full")) {
        m->table = 'f';
        if (!legcf__member(rows, "table", &part) || !legcf__matrix(s, "item_rows.table", part, &m->rows)) return 0;
        m->width = m->rows.columns;
        return m->rows.rows == m->num_items;
    }
    if (legcf__is(rows, "kind", "packed")) {
        m->table = 'p';
        if (!legcf__member(rows, "shape", &shape) || !legcf__expect(&shape, '[') || !legcf__count(shape, &count)) return 0;
        if (!legcf__pass(&shape) || !legcf__expect(&shape, ',') || !legcf__count(shape, &width)) return 0;
        if (count != m->num_items || !width || width > LEGCF_MOST_WIDTH) return 0;
        m->width = (uint32_t)width;
        if (!legcf__count_of(rows, "bits", &i) || i > 8 || !(legcf__spans[i] > 0)) return 0;
        m->table_bits = (uint32_t)i;
        if (!legcf__number_of(rows, "top", 1e-300, LEGCF_LARGEST, &top)) return 0;
        if (!legcf__vector(s, "item_rows", ".values", LEGCF_U8, &m->packed) || !legcf__has_bits(m->packed, count * width, m->table_bits)) return 0;
        if (!legcf__vector(s, "item_rows", ".scale", LEGCF_U8, &m->rows.scale) || m->rows.scale.size != count) return 0;
        legcf__factors(m->rows.factors, top);
        return 1;
    }
    m->table = 'c';
    if (!legcf__is(rows, "kind", "coded") || !legcf__member(config, "codebook", &part) || !legcf__matrix(s, "codebook", part, &m->codebook)) return 0;
    if (!legcf__member(rows, "weights", &part) || !legcf__matrix(s, "item_rows.weights", part, &m->rows)) return 0;
    m->width = m->codebook.columns;
    m->column_bits = legcf__bits_for(m->codebook.rows);
    count = (uint64_t)m->rows.rows * m->rows.columns;
    if (m->rows.rows != m->num_items || !legcf__vector(s, "item_rows", ".columns", LEGCF_U8, &m->columns)) return 0;
    if (!legcf__has_bits(m->columns, count, m->column_bits)) return 0;
    for (i = 0; i < count; i++)
        if (legcf__bits(m->columns, i, m->column_bits) >= m->codebook.rows) return 0;
    return 1;
}

static int legcf__lists(const legcf_source *s, legcf_json config, legcf_model *m) {
    uint64_t entries, bits, levels, i;
    if (!legcf__count_of(config, "entries", &entries) || !legcf__count_of(config, "bits", &bits) || bits < 1 || bits > 16) return 0;
    if (!legcf__count_of(config, "levels", &levels) || !legcf__number_of(config, "user_power", 0, 4, &m->list_power)) return 0;
    if (!legcf__keys(s, "lists", entries, (uint64_t)m->num_items * m->num_items, &m->lists)) return 0;
    if (!legcf__vector(s, "lists", ".levels", LEGCF_F32, &m->list_levels) || m->list_levels.size != 4 * levels) return 0;
    if (!legcf__vector(s, "lists", ".weights", LEGCF_U8, &m->list_codes) || !legcf__has_bits(m->list_codes, entries, (unsigned)bits)) return 0;
    m->list_bits = (uint32_t)bits;
    for (i = 0; i < levels; i++) {
        float level = legcf__float(m->list_levels.at + 4 * i);
        if (!(level >= -LEGCF_LARGEST && level <= LEGCF_LARGEST)) return 0;
    }
    for (i = 0; i < entries; i++)
        if (legcf__bits(m->list_codes, i, m->list_bits) >= levels) return 0;
    return m->has_lists = 1;
}

static int legcf__histories(const legcf_source *s, legcf_json config, legcf_model *m) {
    uint64_t pairs, levels, i;
    if (!legcf__count(config, &pairs) || !legcf__keys(s, "history", pairs, (uint64_t)m->num_users * m->num_items, &m->histories)) return 0;
    m->has_history = 1;
    if (!legcf__vector(s, "history", ".levels", LEGCF_F32, &m->history_levels)) return 1;
    levels = m->history_levels.size / 4;
    m->history_bits = legcf__bits_for(levels);
    if (levels > 256 || !legcf__vector(s, "history", ".weights", LEGCF_U8, &m->history_codes)) return 0;
    if (!legcf__has_bits(m->history_codes, pairs, m->history_bits)) return 0;
    for (i = 0; i < levels; i++) {
        float level = legcf__float(m->history_levels.at + 4 * i);
        if (!(level > 0 && level <= LEGCF_LARGEST)) return 0;
    }
    for (i = 0; i < pairs; i++)
        if (legcf__bits(m->history_codes, i, m->history_bits) >= levels) return 0;
    return 1;
}

static int legcf__parts(const legcf_source *s, legcf_json config, legcf_model *m) {
    legcf_json part, side;
    legcf_array array;
    uint64_t count, bits, i;
    if (!legcf__count_of(config, "items", &count) || !count || count >= (uint64_t)1 << 31) return 0;
    m->num_items = (uint32_t)count;
    if (!legcf__member(config, "popularity", &part) || !legcf__count_of(part, "bits", &bits) || bits < 1 || bits > 32) return 0;
    m->popularity_bits = (uint32_t)bits;
    if (!legcf__vector(s, "popularity", "", LEGCF_U8, &m->popularity) || !legcf__has_bits(m->popularity, count, m->popularity_bits)) return 0;
    if (!legcf__table(s, config, m)) return 0;
    if (legcf__array(s, "item_bias", &array)) {
        if ((array.type != LEGCF_F16 && array.type != LEGCF_F32) || array.dimensions != 1 || array.shape[0] != count) return 0;
        m->bias = array.bytes;
        m->bias_type = array.type == LEGCF_F16 ? 2 : 4;
        for (i = 0; i < count; i++) {
            float value = m->bias_type == 2 ? legcf__half(m->bias.at + 2 * i) : legcf__float(m->bias.at + 4 * i);
            if (!(value >= -LEGCF_LARGEST && value <= LEGCF_LARGEST)) return 0;
        }
    }
    m->repeats = legcf__member(config, "repeats", &part) && legcf__peek(&part) == 't';
    if (legcf__member(config, "pooling", &part)) {
        if (!legcf__number_of(part, "user_power", -4, 4, &m->user_power) || !legcf__number_of(part, "item_power", -4, 4, &m->item_power)) return 0;
        if (legcf__member(part, "half_life", &side) && !legcf__number_of(part, "half_life", 1e-9, 1e12, &m->half_life)) return 0;
        m->is_pooled = 1;
    }
    if (!legcf__member(config, "fold_in", &part) || !legcf__member(part, "user", &side)) return 0;
    if (!legcf__number_of(side, "unobserved", 0, 1e12, &m->unobserved) || !legcf__number_of(side, "ridge", 0, 1e12, &m->ridge)) return 0;
    if (!legcf__number_of(side, "damping", 0, 1e12, &m->damping) || !legcf__number_of(side, "scale", 0, 1e12, &m->scale)) return 0;
    if (!legcf__member(config, "item_ids", &part) || !legcf__ids(s, "ids.items", part, m->num_items, &m->items)) return 0;
    if (legcf__array(s, "titles.text", &array)) {
        if (!legcf__texts(s, "titles", m->num_items, &m->titles)) return 0;
        m->has_titles = 1;
    }
    if (legcf__member(config, "lists", &part) && !legcf__lists(s, part, m)) return 0;
    if (!legcf__member(config, "users", &part)) return 1;
    if (!legcf__count(part, &count) || count > 8 * s->size || count >= (uint64_t)1 << 31) return 0;
    m->num_users = (uint32_t)count;
    if (!legcf__member(config, "user_ids", &part) || !legcf__ids(s, "ids.users", part, m->num_users, &m->users)) return 0;
    if (legcf__member(config, "dislikes", &part)) {
        if (!legcf__count(part, &count) || !legcf__keys(s, "dislikes", count, (uint64_t)m->num_users * m->num_items, &m->dislikes)) return 0;
        m->has_dislikes = 1;
    }
    return !legcf__member(config, "history", &part) || legcf__histories(s, part, m);
}


/* Check a file that lies in memory, and find its parts. The bytes must stay where they are. */
static inline legcf_status legcf_open(legcf_model *m, const void *bytes, size_t size) {
    const uint8_t *file = (const uint8_t *)bytes;
    uint64_t length;
    legcf_source s;
    legcf_json metadata, config;
    memset(m, 0, sizeof *m);
    if (size < 10) return LEGCF_FOREIGN;
    length = legcf__little(file, 8);
    if (length < 2 || length > size - 8 || length > LEGCF_MOST_HEADER) return LEGCF_FOREIGN;
    s.header.at = file + 8;
    s.header.end = file + 8 + length;
    s.header.escaped = 0;
    s.data = file + 8 + length;
    s.size = size - 8 - length;
    if (!legcf__member(s.header, "__metadata__", &metadata) || !legcf__is(metadata, "format", "legcf-serving")) return LEGCF_FOREIGN;
    if (!legcf__is(metadata, "version", LEGCF_FORMAT_VERSION)) return LEGCF_VERSION;
    if (!legcf__layout(&s)) return LEGCF_DAMAGED;
#ifndef LEGCF_NO_CHECKSUM
    if (!legcf__checksum(file, size, length)) return LEGCF_DAMAGED;
#endif
    if (!legcf__member(metadata, "config", &config) || !legcf__expect(&config, '"')) return LEGCF_DAMAGED;
    config.escaped = 1;
    return legcf__parts(&s, config, m) ? LEGCF_OK : LEGCF_DAMAGED;
}

static int legcf__has_lookup(const legcf_model *m) { /* rows of whole bytes, two values or four to each half of one */
    return m->table == 'p' && (m->table_bits == 1 || m->table_bits == 2 || m->table_bits == 4) && m->width * m->table_bits % 8 == 0;
}

static uint64_t legcf__num_steps(const legcf_model *m) { return legcf__has_lookup(m) ? (uint64_t)m->width * m->table_bits / 8 * 32 : m->width; }

/* Return how many bytes of memory requests need, beside the file and the model. */
static inline size_t legcf_work_bytes(const legcf_model *m) {
    uint64_t doubles = legcf__num_steps(m) + (m->is_pooled ? 0 : 2 * (uint64_t)m->width * m->width + m->width);
    uint64_t floats = (uint64_t)m->num_items + m->codebook.rows + 2 * (uint64_t)m->width;
    uint64_t counts = (m->has_lists ? legcf__blocks(&m->lists) : 0) + (m->has_history ? legcf__blocks(&m->histories) : 0);
    counts += m->has_dislikes ? legcf__blocks(&m->dislikes) : 0;
    return (size_t)(8 * doubles + 4 * (floats + counts));
}

static inline uint32_t legcf_popularity(const legcf_model *m, uint32_t item) { return (uint32_t)legcf__bits(m->popularity, item, m->popularity_bits); }

static void legcf__row(const legcf_model *m, uint32_t item, float *out) { /* the vector of an item */
    uint32_t k, x;
    if (m->table == 'c') {
        for (k = 0; k < m->rows.columns; k++) {
            float weight = legcf__value(&m->rows, item, k);
            uint32_t code = (uint32_t)legcf__bits(m->columns, (uint64_t)item * m->rows.columns + k, m->column_bits);
            for (x = 0; x < m->width; x++) {
                float term = weight * legcf__value(&m->codebook, code, x);
                out[x] = k ? out[x] + term : term;
            }
        }
    } else if (m->table == 'p') {
        float factor = m->rows.factors[m->rows.scale.at[item]];
        for (x = 0; x < m->width; x++)
            out[x] = legcf__level((uint32_t)legcf__bits(m->packed, (uint64_t)item * m->width + x, m->table_bits), m->table_bits) * factor;
    } else
        for (x = 0; x < m->width; x++) out[x] = legcf__value(&m->rows, item, x);
}

static void legcf__gram(legcf_model *m) { /* unobserved * V'V + ridge */
    uint32_t i, x, y, d = m->width;
    double trace = 0;
    memset(m->gram, 0, (size_t)d * d * sizeof *m->gram);
    for (i = 0; i < m->num_items; i++) {
        legcf__row(m, i, m->row);
        for (x = 0; x < d; x++)
            for (y = 0; y <= x; y++) m->gram[(size_t)x * d + y] += (double)m->row[x] * m->row[y];
    }
    for (x = 0; x < d; x++) trace += m->gram[(size_t)x * d + x];
    trace = trace > 0 ? trace / d : 1;
    for (x = 0; x < d; x++)
        for (y = 0; y <= x; y++) m->gram[(size_t)x * d + y] = m->unobserved * m->gram[(size_t)x * d + y] + (x == y ? (m->ridge > 1e-9 ? m->ridge : 1e-9) * trace : 0);
}

/* Divide the work memory (of legcf_work_bytes, aligned like a double) and fill what all requests share. */
static inline legcf_status legcf_prepare(legcf_model *m, void *work) {
    double *doubles = (double *)work;
    float *floats;
    uint32_t *counts;
    if (!m->is_pooled) {
        m->gram = doubles;
        m->system = m->gram + (size_t)m->width * m->width;
        m->rhs = m->system + (size_t)m->width * m->width;
        doubles = m->rhs + m->width;
    }
    m->steps = doubles;
    floats = (float *)(void *)(doubles + legcf__num_steps(m));
    m->scores = floats;
    m->projected = m->scores + m->num_items;
    m->vector = m->projected + m->codebook.rows;
    m->row = m->vector + m->width;
    counts = (uint32_t *)(void *)(m->row + m->width);
    if (m->has_lists) { legcf__index(&m->lists, counts); counts += legcf__blocks(&m->lists); }
    if (m->has_history) { legcf__index(&m->histories, counts); counts += legcf__blocks(&m->histories); }
    if (m->has_dislikes) legcf__index(&m->dislikes, counts);
    if (!m->is_pooled) legcf__gram(m);
    return LEGCF_OK;
}

static int legcf__solve(legcf_model *m) { /* Cholesky, in place: system * x = rhs */
    uint32_t x, y, z, d = m->width;
    double *a = m->system, *b = m->rhs, sum;
    for (x = 0; x < d; x++)
        for (y = 0; y <= x; y++) {
            sum = a[(size_t)x * d + y];
            for (z = 0; z < y; z++) sum -= a[(size_t)x * d + z] * a[(size_t)y * d + z];
            if (x == y) { if (!(sum > 0)) return 0; a[(size_t)x * d + x] = sqrt(sum); }
            else a[(size_t)x * d + y] = sum / a[(size_t)y * d + y];
        }
    for (x = 0; x < d; x++) {
        for (sum = b[x], z = 0; z < x; z++) sum -= a[(size_t)x * d + z] * b[z];
        b[x] = sum / a[(size_t)x * d + x];
    }
    for (x = d; x-- > 0;) {
        for (sum = b[x], z = x + 1; z < d; z++) sum -= a[(size_t)z * d + x] * b[z];
        b[x] = sum / a[(size_t)x * d + x];
    }
    return 1;
}

static double legcf__fold_weight(const legcf_model *m, const legcf_request *r, uint32_t i) {
    uint32_t users = legcf_popularity(m, r->items[i]);
    double weight = pow(users ? users : 1, -m->damping);
    return r->relative ? weight * r->relative[i] : weight;
}

static void legcf__profile(legcf_model *m, const legcf_request *r) { /* the vector of somebody with these items */
    uint32_t i, x, y, d = m->width;
    memset(m->vector, 0, d * sizeof *m->vector);
    if (!r->count) return;
    if (m->is_pooled) {
        float own = (float)pow(r->count, -m->user_power);
        for (i = 0; i < r->count; i++) {
            uint32_t users = legcf_popularity(m, r->items[i]);
            float weight = users ? (float)pow(users, -m->item_power) : 0;
            legcf__row(m, r->items[i], m->row);
            for (x = 0; x < d; x++) {
                float part = m->row[x] * weight;
                if (r->relative) part *= r->relative[i];
                m->vector[x] += part;
            }
        }
        for (x = 0; x < d; x++) m->vector[x] *= own;
        return;
    }
    {
        double total = 0;
        for (i = 0; i < r->count; i++) total += legcf__fold_weight(m, r, i);
        memcpy(m->system, m->gram, (size_t)d * d * sizeof *m->gram);
        memset(m->rhs, 0, d * sizeof *m->rhs);
        for (i = 0; i < r->count; i++) {
            double weight = total > 0 ? legcf__fold_weight(m, r, i) * r->count / total : 0;
            legcf__row(m, r->items[i], m->row);
            for (x = 0; x < d; x++) {
                double part = weight * m->row[x];
                m->rhs[x] += part;
                for (y = 0; y <= x; y++) m->system[(size_t)x * d + y] += part * m->row[y];
            }
        }
        if (legcf__solve(m))
            for (x = 0; x < d; x++) m->vector[x] = (float)(m->scale * m->rhs[x]);
    }
}

/* Of a row with a vector, in the order of the file format: four sums in which every product is exact. */
static float legcf__product(const legcf_matrix *m, uint32_t row, const double *vector) {
    double sum[4] = {0, 0, 0, 0};
    float some[32];
    uint32_t x = 0, k, d = m->columns;
    for (; x + 32 <= d; x += 32) {
        if (m->type == 1) { /* compilers make vectors of these two loops */
            const int8_t *values = (const int8_t *)m->values.at + (uint64_t)row * d + x;
            const float scale = m->factors[m->scale.at[row]];
            for (k = 0; k < 32; k++) some[k] = (float)values[k] * scale;
        } else
            for (k = 0; k < 32; k++) some[k] = legcf__value(m, row, x + k);
        for (k = 0; k < 32; k += 4) {
            sum[0] += (double)some[k] * vector[x + k];
            sum[1] += (double)some[k + 1] * vector[x + k + 1];
            sum[2] += (double)some[k + 2] * vector[x + k + 2];
            sum[3] += (double)some[k + 3] * vector[x + k + 3];
        }
    }
    for (; x < d; x++) sum[x < (d & ~3u) ? x & 3 : 0] += (double)legcf__value(m, row, x) * vector[x];
    return (float)((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static uint32_t legcf__coded_scores(legcf_model *m, const uint32_t t) { /* of items whose t codes lie in one word; how many */
    const uint32_t bits = m->column_bits;
    const uint64_t safe = m->columns.size < 8 ? 0 : m->columns.size - 7, mask = ((uint64_t)1 << bits) - 1;
    const uint8_t *columns = m->columns.at, *scale = m->rows.scale.at;
    const int8_t *weight = (const int8_t *)m->rows.values.at;
    const float *factors = m->rows.factors, *projected = m->projected;
    float *scores = m->scores;
    uint64_t position = 0;
    uint32_t i, k;
    if (m->rows.type != 1 || t * bits > 57) return 0;
    for (i = 0; i < m->num_items && position >> 3 < safe; i++, position += t * bits, weight += t) {
        uint64_t word = legcf__word(columns + (position >> 3)) >> (position & 7);
        float factor = factors[scale[i]], score = (float)weight[0] * factor * projected[word & mask];
        for (k = 1; k < t; k++) {
            float term = (float)weight[k] * factor * projected[(word >>= bits) & mask];
            score += term;
        }
        scores[i] = score;
    }
    return i;
}

static void legcf__products(legcf_model *m) { /* scores: inner products of the vector with all items */
    uint32_t i, k, x, d = m->width;
    for (x = 0; x < d && !legcf__has_lookup(m); x++) m->steps[x] = m->vector[x];
    if (m->table == 'c') {
        uint32_t t = m->rows.columns;
        for (i = 0; i < m->codebook.rows; i++) m->projected[i] = legcf__product(&m->codebook, i, m->steps);
        for (i = t == 2 ? legcf__coded_scores(m, 2) : legcf__coded_scores(m, t); i < m->num_items; i++) {
            float score = 0;
            for (k = 0; k < t; k++) {
                float term = legcf__value(&m->rows, i, k) * m->projected[legcf__bits(m->columns, (uint64_t)i * t + k, m->column_bits)];
                score = k ? score + term : term;
            }
            m->scores[i] = score;
        }
    } else if (m->table == 'p') {
        uint32_t bits = m->table_bits, levels = 1u << bits;
        double middle = (double)(levels - 1) / 2, grid = 0;
        float step = legcf__step(bits);
        for (x = 0; x < d; x++) if (fabs(m->vector[x]) > grid) grid = fabs(m->vector[x]);
        grid *= 16777216; /* what is rounded to its steps has so few bits that all sums below are exact */
        if (legcf__has_lookup(m)) { /* what each half of a byte adds, whichever of 16 it is */
            uint32_t bytes = d * bits / 8, per = 4 / bits, b;
            for (b = 0; b < 2 * bytes; b++)
                for (k = 0; k < 16; k++) {
                    double sum = 0;
                    for (x = 0; x < per; x++) sum += ((double)(k >> (x * bits) & (levels - 1)) - middle) * ((double)m->vector[b * per + x] + grid - grid);
                    m->steps[b * 16 + k] = sum;
                }
            for (i = 0; i < m->num_items; i++) {
                const uint8_t *row = m->packed.at + (uint64_t)i * bytes;
                const double *table = m->steps;
                double low = 0, high = 0;
                for (b = 0; b < bytes; b++, table += 32) { low += table[row[b] & 15]; high += table[16 + (row[b] >> 4)]; }
                m->scores[i] = (float)(low + high) * (step * m->rows.factors[m->rows.scale.at[i]]);
            }
            return;
        }
        for (x = 0; x < d; x++) m->steps[x] = m->steps[x] + grid - grid;
        for (i = 0; i < m->num_items; i++) {
            uint64_t at = (uint64_t)i * d;
            double sum[4] = {0, 0, 0, 0};
            x = 0;
            if (at * bits % 8 == 0) /* eight values are as many bytes as a value has bits */
                for (; x + 8 <= d && ((at + x) * bits / 8 + 8) <= m->packed.size; x += 8) {
                    uint64_t word = legcf__word(m->packed.at + (at + x) * bits / 8);
                    const double *v = m->steps + x;
                    for (k = 0; k < 8; k += 4) {
                        sum[0] += ((double)(int)(word & (levels - 1)) - middle) * v[k];
                        sum[1] += ((double)(int)(word >> bits & (levels - 1)) - middle) * v[k + 1];
                        sum[2] += ((double)(int)(word >> (2 * bits) & (levels - 1)) - middle) * v[k + 2];
                        sum[3] += ((double)(int)(word >> (3 * bits) & (levels - 1)) - middle) * v[k + 3];
                        word >>= 4 * bits;
                    }
                }
            for (; x < d; x++) sum[x & 3] += ((double)(int)legcf__bits(m->packed, at + x, bits) - middle) * m->steps[x];
            m->scores[i] = (float)((sum[0] + sum[1]) + (sum[2] + sum[3])) * (step * m->rows.factors[m->rows.scale.at[i]]);
        }
    } else
        for (i = 0; i < m->num_items; i++) m->scores[i] = legcf__product(&m->rows, i, m->steps);
}

static int legcf__add_lists(legcf_model *m, const legcf_request *r, int add) { /* add what lists say; whether they say anything */
    float own = (float)pow(r->count ? r->count : 1, -m->list_power);
    uint32_t i;
    int speaks = 0;
    for (i = 0; m->has_lists && i < r->count; i++) {
        uint64_t first = (uint64_t)r->items[i] * m->num_items, key;
        legcf_walk walk = legcf__seek(&m->lists, first);
        while (legcf__next(&m->lists, &walk, &key) && key < first + m->num_items) {
            float weight = legcf__float(m->list_levels.at + 4 * legcf__bits(m->list_codes, walk.number - 1, m->list_bits));
            if (r->relative) weight *= r->relative[i];
            speaks |= weight < 0 || weight > 0;
            weight *= own;
            if (add) m->scores[key - first] += weight;
        }
    }
    return speaks;
}

static uint32_t legcf__best(const legcf_model *m, const uint8_t *hidden, uint32_t k, uint32_t *items, float *scores) {
    uint32_t i, slot, start, end, kept = 0;
    float least = -INFINITY; /* what a score must exceed */
    for (start = 0; k && start < m->num_items; start = end) {
        int exceeds = 0; /* most blocks have no such score */
        end = m->num_items - start > LEGCF_GLANCE ? start + LEGCF_GLANCE : m->num_items;
        for (i = start; i < end; i++) exceeds |= m->scores[i] > least;
        for (i = exceeds ? start : end; i < end; i++) {
            float score = m->scores[i];
            if (!(score > least) || (hidden && hidden[i >> 3] >> (i & 7) & 1)) continue;
            slot = kept < k ? kept++ : k - 1;
            for (; slot && scores[slot - 1] < score; slot--) { scores[slot] = scores[slot - 1]; items[slot] = items[slot - 1]; }
            scores[slot] = score;
            items[slot] = i;
            if (kept == k) least = scores[k - 1];
        }
    }
    return kept;
}

/* Sort positions and keep each once; returns how many are left. */
static inline uint32_t legcf_sort(uint32_t *items, uint32_t count) {
    uint32_t i, root, child, end, kept = 0, swap;
    for (i = count / 2; i-- > 0;)
        for (root = i; (child = 2 * root + 1) < count; root = child) {
            if (child + 1 < count && items[child] < items[child + 1]) child++;
            if (items[root] >= items[child]) break;
            swap = items[root]; items[root] = items[child]; items[child] = swap;
        }
    for (end = count; end > 1;) {
        end--;
        swap = items[0]; items[0] = items[end]; items[end] = swap;
        for (root = 0; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && items[child] < items[child + 1]) child++;
            if (items[root] >= items[child]) break;
            swap = items[root]; items[root] = items[child]; items[child] = swap;
        }
    }
    for (i = 0; i < count; i++)
        if (!kept || items[kept - 1] != items[i]) items[kept++] = items[i];
    return kept;
}

/* Find the best k items for somebody: positions and scores, best first, the lower position first among equals.
 * Who has nothing, or nothing that tells items apart, gets what most people have. Returns how many, or a status. */
static inline long legcf_recommend(legcf_model *m, const legcf_request *r, uint32_t k, uint32_t *items, float *scores) {
    uint32_t i;
    int known = 0;
    for (i = 0; i < r->count; i++)
        if (r->items[i] >= m->num_items || (i && r->items[i] <= r->items[i - 1])) return LEGCF_REQUEST;
    legcf__profile(m, r);
    for (i = 0; i < m->width && !known; i++) known = m->vector[i] < 0 || m->vector[i] > 0;
    if (known || legcf__add_lists(m, r, 0)) {
        legcf__products(m);
        for (i = 0; m->bias_type && i < m->num_items; i++)
            m->scores[i] += m->bias_type == 2 ? legcf__half(m->bias.at + 2 * (uint64_t)i) : legcf__float(m->bias.at + 4 * (uint64_t)i);
        legcf__add_lists(m, r, 1);
    } else
        for (i = 0; i < m->num_items; i++) m->scores[i] = (float)legcf_popularity(m, i);
    for (i = 0; !r->keep_seen && i < r->count; i++) m->scores[r->items[i]] = -INFINITY;
    return (long)legcf__best(m, r->hidden, k, items, scores);
}

static float legcf__length(const legcf_model *m) {
    float sum = 0;
    uint32_t x;
    for (x = 0; x < m->width; x++) sum += m->row[x] * m->row[x];
    sum = sqrtf(sum);
    return sum > 1e-12f ? sum : 1e-12f;
}

/* Find the k items most like one: cosines, shrunk by n / (n + 5) where only n users have an item. */
static inline long legcf_similar(legcf_model *m, uint32_t item, uint32_t k, uint32_t *items, float *scores) {
    uint32_t i;
    float own;
    if (item >= m->num_items) return LEGCF_REQUEST;
    legcf__row(m, item, m->vector);
    memcpy(m->row, m->vector, m->width * sizeof *m->row);
    own = legcf__length(m);
    legcf__products(m);
    for (i = 0; i < m->num_items; i++) {
        float users = (float)legcf_popularity(m, i);
        users = users > 1 ? users : 1;
        legcf__row(m, i, m->row);
        m->scores[i] = m->scores[i] / (legcf__length(m) * own) * (users / (users + 5));
    }
    m->scores[item] = -INFINITY;
    return (long)legcf__best(m, NULL, k, items, scores);
}

/* Read what a user is known to have, at most `most` items; `relative` may be NULL. Returns how many there are. */
static inline long legcf_history(const legcf_model *m, uint32_t user, uint32_t *items, float *relative, uint32_t most) {
    uint64_t first = (uint64_t)user * m->num_items, key;
    legcf_walk walk;
    uint32_t n = 0, i;
    double total = 0;
    if (!m->has_history) return LEGCF_NO_HISTORY;
    if (user >= m->num_users) return LEGCF_REQUEST;
    walk = legcf__seek(&m->histories, first);
    while (legcf__next(&m->histories, &walk, &key) && key < first + m->num_items) {
        float weight = m->history_bits ? legcf__float(m->history_levels.at + 4 * legcf__bits(m->history_codes, walk.number - 1, m->history_bits)) : 1;
        if (n < most) {
            items[n] = (uint32_t)(key - first);
            if (relative) relative[n] = weight;
        }
        total += weight;
        n++;
    }
    for (i = 0; relative && i < n && i < most; i++) relative[i] = (float)(relative[i] / (total / n));
    return (long)n;
}

/* Mark in a bit set of all items (`hidden` of a request) what a user does not want. Returns how many there are. */
static inline long legcf_hide_dislikes(const legcf_model *m, uint32_t user, uint8_t *hidden) {
    uint64_t first = (uint64_t)user * m->num_items, key;
    legcf_walk walk;
    long n = 0;
    if (!m->has_dislikes) return 0;
    if (user >= m->num_users) return LEGCF_REQUEST;
    walk = legcf__seek(&m->dislikes, first);
    while (legcf__next(&m->dislikes, &walk, &key) && key < first + m->num_items) {
        hidden[(key - first) >> 3] |= (uint8_t)(1u << ((key - first) & 7));
        n++;
    }
    return n;
}

/* Return the position of an item or a user by its id as text, or -1. */
static inline long legcf_find_item(const legcf_model *m, const char *id) { return legcf__find(&m->items, id); }
static inline long legcf_find_user(const legcf_model *m, const char *id) { return legcf__find(&m->users, id); }

/* Write the id of an item as text, or its title (its id where there are none); returns its length in bytes. */
static inline size_t legcf_item_id(const legcf_model *m, uint32_t item, char *to, size_t size) { return legcf__id(&m->items, item, to, size); }
static inline size_t legcf_item_name(const legcf_model *m, uint32_t item, char *to, size_t size) { return legcf__id(m->has_titles ? &m->titles : &m->items, item, to, size); }

static inline const char *legcf_sentence(long status) {
    switch (status) {
    case LEGCF_FOREIGN: return "This is not a legcf model file: give a file that `legcf export` wrote.";
    case LEGCF_VERSION: return "The file has another format version than this reader (" LEGCF_FORMAT_VERSION "): take the legcf.h that belongs to it, or export the model again.";
    case LEGCF_DAMAGED: return "The file is damaged: export the model again or copy the file once more.";
    case LEGCF_REQUEST: return "A position is out of range, or positions are not ascending.";
    case LEGCF_NO_HISTORY: return "This model stores no histories: give the user's items.";
    default: return "";
    }
}

#endif
