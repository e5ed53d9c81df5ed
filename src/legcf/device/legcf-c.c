/* SPDX-License-Identifier: Apache-2.0
 *
 * legcf-c: ask a model file from C.   cc -std=c99 -O3 -o legcf-c legcf-c.c -lm
 *
 *     legcf-c model.legcf ITEM ITEM ...     ten recommendations for somebody who has these items
 *     legcf-c --similar model.legcf ITEM    ten items like it
 *     legcf-c --answers model.legcf         answers requests of standard input, one a line, with positions and scores:
 *                                           r K KEEP-SEEN HIDDEN item ... COUNT item ...    recommend, for items
 *                                           u K KEEP-SEEN HIDDEN item ... USER              recommend, for a user
 *                                           s K 0 0 1 ITEM                                  similar
 *     legcf-c --times model.legcf           the same, and a line of standard error for each: its microseconds of processor time
 */
#include "legcf.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 10000u

static int refuse(const char *sentence) {
    fprintf(stderr, "legcf-c: %s\n", sentence);
    return 2;
}

static unsigned char *whole_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long end;
    if (file && !fseek(file, 0, SEEK_END) && (end = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET)) {
        bytes = malloc((size_t)end + 1);
        *size = bytes ? fread(bytes, 1, (size_t)end, file) : 0;
    }
    if (file) fclose(file);
    return bytes;
}

static void show(const legcf_model *model, long count, const uint32_t *items, const float *scores) {
    char id[1024], name[1024];
    long i;
    for (i = 0; i < count; i++) {
        legcf_item_id(model, items[i], id, sizeof id);
        legcf_item_name(model, items[i], name, sizeof name);
        printf("%.6g\t%s\t%s\n", (double)scores[i], id, name);
    }
}

static uint32_t read_numbers(uint32_t *to, size_t most) { /* a count and as many numbers */
    unsigned count = 0, i, number;
    if (scanf("%u", &count) != 1) return 0;
    for (i = 0; i < count && scanf("%u", &number) == 1; i++)
        if (i < most) to[i] = number;
    return i < most ? i : (uint32_t)most;
}

static int answer(legcf_model *model, int timed) {
    static uint32_t items[MOST];
    static float scores[MOST];
    size_t most = (size_t)model->num_items + 1;
    uint32_t *history = malloc(most * sizeof *history);
    float *relative = malloc(most * sizeof *relative);
    uint8_t *hidden = malloc(most);
    char kind;
    unsigned k, user;
    int keep_seen;
    clock_t spent = 0, start;
    long asked = 0;
    if (!history || !relative || !hidden) return refuse("There is not enough memory.");
    while (scanf(" %c %u %d", &kind, &k, &keep_seen) == 3) {
        legcf_request request = {0};
        long found = 0, i, left_out = (long)read_numbers(history, most);
        memset(hidden, 0, most);
        for (i = 0; i < left_out; i++)
            if (history[i] < model->num_items) hidden[history[i] >> 3] |= (uint8_t)(1u << (history[i] & 7));
        request.count = kind == 'u' ? 0 : read_numbers(history, most);
        if (kind == 'u' && scanf("%u", &user) != 1) break;
        k = k < MOST ? k : MOST;
        start = clock();
        if (kind == 'u') {
            found = legcf_history(model, user, history, relative, (uint32_t)most);
            request.count = found > 0 ? (uint32_t)found : 0;
            if (model->history_bits) request.relative = relative;
            if (legcf_hide_dislikes(model, user, hidden) > 0) left_out = 1;
        } else if (kind == 'r')
            request.count = legcf_sort(history, request.count);
        request.items = history;
        request.keep_seen = keep_seen < 0 ? model->repeats : keep_seen;
        request.hidden = left_out ? hidden : NULL;
        if (found >= 0 && kind == 's')
            found = request.count ? legcf_similar(model, history[0], k, items, scores) : (long)LEGCF_REQUEST;
        else if (found >= 0)
            found = legcf_recommend(model, &request, k, items, scores);
        start = clock() - start;
        spent += start;
        asked++;
        if (timed) fprintf(stderr, "%.0f\n", 1e6 * (double)start / CLOCKS_PER_SEC);
        printf("%ld", found);
        for (i = 0; i < found; i++) printf(" %u %.9g", (unsigned)items[i], (double)scores[i]);
        printf("\n");
    }
    fprintf(stderr, "%ld requests, %.4f ms each, %lu bytes of work memory\n", asked,
            asked ? 1e3 * (double)spent / CLOCKS_PER_SEC / (double)asked : 0.0, (unsigned long)legcf_work_bytes(model));
    free(history);
    free(relative);
    free(hidden);
    return 0;
}

int main(int count, char **words) {
    static legcf_model model;
    static uint32_t items[MOST], best[10];
    static float scores[10];
    const char *option = count > 1 && words[1][0] == '-' ? words[1] : "";
    int first = *option ? 2 : 1, i, code = 0;
    legcf_request request = {0};
    size_t size = 0;
    unsigned char *bytes;
    void *work;
    long status;
    if (count <= first) return refuse("Usage: legcf-c [--similar | --answers | --times] model.legcf ITEM ITEM ...");
    bytes = whole_file(words[first], &size);
    if (!bytes) return refuse("The file cannot be read.");
    status = legcf_open(&model, bytes, size);
    if (status != LEGCF_OK) { free(bytes); return refuse(legcf_sentence(status)); }
    work = malloc(legcf_work_bytes(&model));
    if (!work) { free(bytes); return refuse("There is not enough memory."); }
    legcf_prepare(&model, work);
    if (!strcmp(option, "--answers") || !strcmp(option, "--times"))
        code = answer(&model, !strcmp(option, "--times"));
    else {
        for (i = first + 1; i < count && request.count < MOST; i++) {
            long item = legcf_find_item(&model, words[i]);
            if (item < 0) fprintf(stderr, "legcf-c: the model does not know %s; it is left out.\n", words[i]);
            else items[request.count++] = (uint32_t)item;
        }
        request.items = items;
        if (!strcmp(option, "--similar"))
            status = request.count ? legcf_similar(&model, items[0], 10, best, scores) : LEGCF_REQUEST;
        else {
            request.count = legcf_sort(items, request.count);
            status = legcf_recommend(&model, &request, 10, best, scores);
        }
        if (status < 0) code = refuse(legcf_sentence(status));
        else show(&model, status, best, scores);
    }
    free(work);
    free(bytes);
    return code;
}
