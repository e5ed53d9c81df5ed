/* SPDX-License-Identifier: Apache-2.0
 *
 * damage FILE SEED COUNT: cuts and changes a model file in memory, COUNT times each way, and asks what opens.
 * A plain change must be refused by the checksum. A change under a right checksum may be refused or answered; the
 * sanitizers watch. Prints how many were refused and answered.
 */
#include "legcf.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t state;

static uint32_t draw(uint32_t below) { /* xorshift */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (uint32_t)(state >> 32) % below : 0;
}

static void seal(uint8_t *file, size_t size) { /* write the checksum that belongs to the file */
    static const char digits[] = "0123456789abcdef";
    legcf_sha h = {{0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u}, {0}, 0};
    uint64_t header = size >= 8 ? legcf__little(file, 8) : 0, i;
    uint8_t none[64] = {0};
    if (size < 8 || header > size - 8) return;
    for (i = 8; i + 77 <= 8 + header; i++)
        if (!memcmp(file + i, "\"checksum\":\"", 12)) {
            memset(file + i + 12, '0', 64);
            legcf__sha_add(&h, file, size);
            legcf__sha_is(&h, none);
            for (header = 0; header < 64; header++) file[i + 12 + header] = (uint8_t)digits[h.state[header / 8] >> (28 - header % 8 * 4) & 15];
            return;
        }
}

static int ask(const uint8_t *bytes, size_t size) { /* whether the file opens; then all questions are asked */
    static legcf_model model;
    uint8_t *exact = malloc(size ? size : 1); /* of just this size, so that a byte too far is seen */
    int opened;
    if (!exact) exit(3);
    memcpy(exact, bytes, size);
    opened = legcf_open(&model, exact, size) == LEGCF_OK;
    if (opened && legcf_work_bytes(&model) < 100u << 20) {
        void *work = malloc(legcf_work_bytes(&model));
        uint32_t items[40], best[50], i;
        float scores[50], relative[40];
        char text[64];
        legcf_request request = {0};
        if (!work) exit(3);
        legcf_prepare(&model, work);
        for (i = 0; i < 8; i++) items[i] = draw(model.num_items);
        request.items = items;
        request.count = legcf_sort(items, 8);
        legcf_recommend(&model, &request, 50, best, scores);
        legcf_similar(&model, items[0], 50, best, scores);
        for (i = 0; i < 5; i++) {
            long count = legcf_history(&model, draw(model.num_users ? model.num_users : 1), items, relative, 40);
            request.count = count < 0 ? 0 : count < 40 ? (uint32_t)count : 40;
            request.relative = relative;
            legcf_recommend(&model, &request, 50, best, scores);
            legcf_item_id(&model, draw(model.num_items), text, sizeof text);
            legcf_item_name(&model, draw(model.num_items), text, sizeof text);
        }
        legcf_find_item(&model, "7");
        legcf_find_user(&model, "7");
        free(work);
    }
    free(exact);
    return opened;
}

int main(int count, char **words) {
    FILE *file = count == 4 ? fopen(words[1], "rb") : NULL;
    uint8_t *whole, *changed;
    size_t size, header;
    long i, times, refused = 0, answered = 0;
    if (!file || fseek(file, 0, SEEK_END)) return 3;
    size = (size_t)ftell(file);
    rewind(file);
    whole = malloc(size);
    changed = malloc(size);
    if (!whole || !changed || fread(whole, 1, size, file) != size) return 3;
    fclose(file);
    state = (uint64_t)strtoul(words[2], NULL, 10) * 2654435761u + 88172645463325252u;
    times = strtol(words[3], NULL, 10);
    header = (size_t)legcf__little(whole, 8);
    if (!ask(whole, size)) return 4;
    for (i = 0; i < times; i++) { /* cut */
        if (ask(whole, draw((uint32_t)size))) return 5;
        refused++;
    }
    for (i = 0; i < times; i++) { /* one bit flipped */
        memcpy(changed, whole, size);
        changed[draw((uint32_t)size)] ^= (uint8_t)(1u << draw(8));
        if (ask(changed, size)) return 6;
        refused++;
    }
    for (i = 0; i < times; i++) { /* some bytes of header or data changed, and the checksum made right */
        uint32_t n = 1 + draw(4);
        memcpy(changed, whole, size);
        while (n--) {
            size_t at = draw(3) ? 8 + draw((uint32_t)header) : draw((uint32_t)size);
            changed[at] = draw(2) ? (uint8_t)draw(256) : (uint8_t)"0123456789{}[]\":,.-e\\ "[draw(22)];
        }
        seal(changed, size);
        if (ask(changed, size)) answered++; else refused++;
    }
    printf("%ld refused, %ld answered\n", refused, answered);
    free(whole);
    free(changed);
    return 0;
}
